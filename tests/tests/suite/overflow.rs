//! Law: after an overflow, parameters and optimizer state are bit-identical to before, and the scale changes as in
//! PyTorch's tests.

use burn_amp_tests::{
    net::{Net, contents, poisoned},
    prelude::*,
};

policy!(
    /// F16 with a scale under which only the poison overflows, and a minimum low enough for all overflows of the test.
    SkippingForever,
    in_f16(|it| {
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.rule.min = 2f32.powi(-100);
    })
);

fn skips_exactly<O>(mut optimizer: O)
where
    O: Optimizer<Net<B>, B>,
{
    let _policy = enter::<SkippingForever>();
    let mut net = Net::<B>::new(&here());
    let leaves = poisoned(&net, usize::MAX, 0.0).1;
    assert_eq!(leaves, 5);
    let step = |net: Net<B>, optimizer: &mut O, loss: Tensor<B, 1>| {
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        let count = grads.len();
        (optimizer.step(0.1, net, grads), count)
    };

    for leaf in 0..leaves {
        for value in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let loss = net.loss(&here());
            let (stepped, count) = step(net, &mut optimizer, loss);
            assert_eq!(count, leaves);

            let before = (
                contents(stepped.clone().into_record()),
                contents(optimizer.to_record()),
            );
            let loss = poisoned(&stepped, leaf, value).0;
            let (skipped, count) = step(stepped, &mut optimizer, loss);
            let after = (
                contents(skipped.clone().into_record()),
                contents(optimizer.to_record()),
            );
            assert_eq!(count, 0, "leaf {leaf}, {value}");
            assert!(before == after, "leaf {leaf}, {value}");

            let skip = loss_scale::<B>(&here()).last_skip().unwrap();
            assert!(skip.overflowed.len() < leaves, "{skip}");
            net = skipped;
        }
    }
}

type B = AmpAutodiff;

#[test]
fn no_parameter_and_no_optimizer_state_changes_by_a_bit() {
    let momentum = MomentumConfig::new().with_momentum(0.9);
    let decay = WeightDecayConfig::new(0.01);
    skips_exactly(
        SgdConfig::new()
            .with_momentum(Some(momentum))
            .with_weight_decay(Some(decay.clone()))
            .init(),
    );
    skips_exactly(AdamConfig::new().with_weight_decay(Some(decay)).init());
    skips_exactly(AdamWConfig::new().init());
    skips_exactly(RmsPropConfig::new().init());
    skips_exactly(AdaGradConfig::new().init());
}

#[test]
fn the_scale_follows_pytorchs_vector_through_backward() {
    let _policy = enter_config!(in_f16(|it| {
        it.loss_scale.rule.init = 128.0;
        it.loss_scale.rule.search = false;
        it.loss_scale.rule.growth_interval = 3;
    }));
    let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
    let handle = loss_scale::<B>(&here());

    let (mut scales, mut trackers) = (vec![], vec![]);
    for step in "FFFIFFFFIIFFFFFFII".chars() {
        let factor = if step == 'I' { f32::INFINITY } else { 1.0 };
        let grads = (weight.clone() * factor).sum().backward();
        let (outcome, handed_out) = match step {
            'I' => (Outcome::Overflowed, vec![0.0, 0.0]),
            _ => (Outcome::Finite, vec![1.0f32, 1.0]),
        };
        assert_eq!(grads.outcome(), outcome);
        let gradient = weight.grad(&grads).unwrap();
        assert_eq!(gradient.values(), handed_out);
        scales.push(handle.scale());
        trackers.push(handle.growth_tracker());
    }
    assert_eq!(
        scales,
        [
            128., 128., 256., 128., 128., 128., 256., 256., 128., 64., 64., 64., 128., 128., 128.,
            256., 128., 64.
        ]
    );
    assert_eq!(
        trackers,
        [1, 2, 0, 0, 1, 2, 0, 1, 0, 0, 1, 2, 0, 1, 2, 0, 0, 0]
    );
    assert_eq!((handle.steps(), handle.skipped_steps()), (18, 5));
    assert_eq!(
        handle.last_skip().unwrap().to_string(),
        "step 17, loss scale 128: 1 of 1 gradients not finite (#0 f32 [2])"
    );
}

#[test]
fn a_scale_that_is_too_high_falls_until_training_goes_on() {
    let _policy = enter_config!({
        let init = 2f32.powi(40);
        in_f16(|it| {
            it.loss_scale.rule.init = init;
            it.loss_scale.rule.search = false;
            it.loss_scale.rule.max = init;
        })
    });
    let mut net = Net::<B>::new(&here());
    let mut optimizer = AdamConfig::new().init();
    let handle = loss_scale::<B>(&here());
    let first = net.loss(&here()).into_scalar();
    for _ in 0..60 {
        let loss = net.loss(&here());
        net = stepped(&mut optimizer, 0.01, loss, net);
    }
    let last = net.loss(&here()).into_scalar();
    assert!(handle.skipped_steps() > 10 && handle.skipped_steps() < 40);
    assert!(handle.scale() < 2f32.powi(30));
    assert!(last < 0.5 * first, "{first} -> {last}");
}

policy!(Static, {
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 1024.0;
    })
});

#[test]
fn a_static_scale_stays_and_skips_all_the_same() {
    let _policy = enter::<Static>();
    let weight = Tensor::<B, 1>::from_floats([1.0], &here()).require_grad();
    let mut grads = (weight.clone() * f32::NAN).sum().backward();
    assert!(weight.grad_remove(&mut grads).is_none());
    let grads = weight.clone().sum().backward();
    assert_eq!(grads.scale(), 1024.0);
    assert_eq!(weight.grad(&grads).unwrap().into_scalar(), 1.0);
    assert_eq!(loss_scale::<B>(&here()).scale(), 1024.0);
}

policy!(Off, scaling(Compute::F16, LossScaleMode::Off));

#[test]
fn without_scaling_nothing_is_checked_or_held_back() {
    let _policy = enter::<Off>();
    let weight = Tensor::<B, 1>::from_floats([1.0], &here()).require_grad();
    let grads = (weight.clone() * f32::INFINITY).sum().backward();
    assert_eq!(weight.grad(&grads).unwrap().into_scalar(), f32::INFINITY);
    let handle = loss_scale::<B>(&here());
    assert_eq!((handle.scale(), handle.steps()), (1.0, 0));
}

#[test]
fn a_replaced_gradient_comes_back_as_it_was_given() {
    let _policy = enter_config!(computing_in(Compute::F16));
    let weight = Tensor::<B, 1>::from_floats([1.0, 2.0], &here()).require_grad();
    let mut grads = weight.clone().sum().backward();
    let given = Tensor::from_floats([0.1, -3.0], &here());
    weight.grad_replace(&mut grads, given);
    let back = weight.grad_remove(&mut grads).unwrap();
    assert_eq!(back.values(), [0.1, -3.0]);
    assert!(weight.grad(&grads).is_none());
}

policy!(Tiny, in_f16(|it| it.loss_scale.rule.search = false));

/// Small gradients in F16: 1.3 × 2^-26 becomes 0 without scaling and survives with a scale of 2^16.
#[test]
fn a_gradient_too_small_for_f16_survives() {
    fn gradient<P: ConfigSource>() -> f32 {
        let _policy = enter::<P>();
        let x = Tensor::<B, 2>::ones([1, 1], &here()).require_grad();
        let one = Tensor::ones([1, 1], &here());
        let loss = x.clone().matmul(one) * (1.3 * 2f32.powi(-26));
        let grads = loss.sum().backward();
        x.grad(&grads).unwrap().into_scalar()
    }
    assert_eq!(gradient::<Off>(), 0.0);
    let kept = gradient::<Tiny>();
    assert!(
        (kept / (1.3 * 2f32.powi(-26)) - 1.0).abs() < 2f32.powi(-11),
        "{kept:e}"
    );
}
