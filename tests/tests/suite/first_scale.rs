//! Law: whatever the size of its gradients, a model skips at most two steps while it searches for its first loss
//! scale.

use burn_amp::scaling::LossScaleRecord;
use burn_amp_tests::{models::linear, prelude::*};

type B = AmpAutodiff;

fn config(search: bool, sync: bool) -> Config {
    in_f16(|it| {
        it.loss_scale.rule.search = search;
        it.loss_scale.sync = sync;
    })
}

policy!(Searching, config(true, true));
policy!(Descending, config(false, true));
policy!(OnDevice, config(true, false));

/// A step whose gradients are proportional to `size`. The learning rate makes up for it, so the model is the same.
fn step<B: AutodiffBackend>(
    model: Linear<B>,
    optimizer: &mut impl Optimizer<Linear<B>, B>,
    size: f32,
) -> (Linear<B>, f32) {
    let x = noise::<B>(64, &here()).reshape([8, 8]);
    let loss = (model.forward(x.clone()) - x.slice([0..8, 0..4]))
        .square()
        .mean();
    let value = loss.clone().into_data().iter().next().unwrap();
    let model = stepped(optimizer, f64::from(1.0 / size), loss * size, model);
    (model, value)
}

/// The losses of 40 steps.
fn losses<B: AutodiffBackend>(mut optimizer: impl Optimizer<Linear<B>, B>, size: f32) -> Vec<f32> {
    let mut model = linear::<B>(8, 4);
    (0..40)
        .map(|_| {
            let (stepped, loss) = step(model.clone(), &mut optimizer, size);
            model = stepped;
            loss
        })
        .collect()
}

/// The skipped steps of a run that starts afresh, and its last loss.
fn run<P: ConfigSource>(size: f32) -> (u64, f32) {
    let _policy = enter::<P>();
    let scale = loss_scale::<B>(&here());
    scale.reset();
    let losses = losses::<B>(AmpOptimizer::new(SgdConfig::new()).init(), size);
    scale.settle();
    (scale.skipped_steps(), *losses.last().unwrap())
}

#[test]
fn whatever_the_size_of_the_gradients_at_most_two_steps_are_skipped() {
    // A software driver takes its time for each step.
    let sizes: &[i32] = if cfg!(feature = "cubecl") {
        &[0, 12, 24]
    } else {
        &[-20, -6, 0, 4, 8, 12, 16, 20, 24]
    };
    for &exponent in sizes {
        let size = 2f32.powi(exponent);
        let plain = losses::<PlainAutodiff>(SgdConfig::new().init(), size);
        assert!(plain[39] < 0.7 * plain[0]);
        let (skipped, loss) = run::<Searching>(size);
        assert!(skipped <= 2, "2^{exponent}: {skipped} steps skipped");
        let expected = plain[39 - skipped as usize];
        assert!(
            (loss / expected - 1.0).abs() < 0.02,
            "2^{exponent}: {loss}, in f32 {expected}"
        );
        let on_device = run::<OnDevice>(size);
        assert_eq!(skipped, on_device.0, "2^{exponent}");
        // Fusion may fuse the two loops differently.
        if !cfg!(feature = "fusion") {
            assert_eq!(loss, on_device.1, "2^{exponent}");
        }
        // A descent from 65536 skips a step for each halving.
        let (descending, _) = run::<Descending>(size);
        println!(
            "gradients × 2^{exponent}: {skipped} steps skipped, {descending} without the search"
        );
        if exponent >= 12 {
            assert!(descending >= exponent as u64 - 4, "{descending}");
        }
    }
}

/// The scale after each pass; `I` is a pass that overflows.
fn scales<B>(passes: &str) -> Vec<f32>
where
    B: AutodiffBackend + burn_amp::extend::Amped,
{
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let scale = loss_scale::<B>(&here());
    let after = |pass| {
        let factor = if pass == 'I' { f32::NAN } else { 1.0 };
        (weight.clone() * factor).sum().backward();
        scale.settle();
        scale.scale()
    };
    passes.chars().map(after).collect()
}

#[test]
fn the_scale_doubles_until_the_first_overflow() {
    policy!(Doubling, config(true, true));
    policy!(DoublingOnDevice, config(true, false));
    fn doubles() {
        let handle = loss_scale::<B>(&here());
        assert_eq!(handle.scale(), 16.0);
        assert_eq!(scales::<B>("FFFIFF"), [32., 64., 128., 64., 64., 64.]);
        assert_eq!((handle.growth_tracker(), handle.skipped_steps()), (2, 1));
        handle.reset();
        assert_eq!((handle.scale(), handle.steps()), (16.0, 0));
        assert_eq!(scales::<B>("IF"), [2f32.powi(-12), 2f32.powi(-11)]);
        handle.reset();
        assert_eq!(scales::<B>(&"F".repeat(14))[11..], [65536.0; 3]);
        assert_eq!(handle.growth_tracker(), 1);
    }
    under_each!(doubles, Doubling, DoublingOnDevice);
}

/// A run that is stopped in the middle of the search and resumed goes on with it, whatever happened in between.
#[test]
fn a_search_goes_on_from_a_checkpoint() {
    policy!(Stopped, config(true, true));
    policy!(StoppedOnDevice, config(true, false));
    fn goes_on() {
        let handle = loss_scale::<B>(&here());
        for (before, after, expected) in [
            ("FF", "FFI", [128.0, 256.0, 128.0]),
            ("I", "FFI", [2f32.powi(-11), 2f32.powi(-10), 2f32.powi(-11)]),
            ("FI", "FFI", [16.0, 16.0, 8.0]),
        ] {
            handle.reset();
            scales::<B>(before);
            let record = serde_json::to_string(&handle.record()).unwrap();
            scales::<B>("FFI");
            handle.load(serde_json::from_str::<LossScaleRecord>(&record).unwrap());
            assert_eq!(scales::<B>(after), expected, "{before}, then {after}");
        }
    }
    under_each!(goes_on, Stopped, StoppedOnDevice);
}
