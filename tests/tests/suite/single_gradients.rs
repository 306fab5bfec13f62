//! Programs that read single gradients, or need every pass: they do not fail when a pass overflows.

use burn::optim::{LBFGSConfig, LineSearchFn};
use burn_amp::scaling::backward_until_finite;
use burn_amp_tests::{models::linear, prelude::*};

type B = AmpAutodiff;

fn batch<B: AutodiffBackend>() -> Tensor<B, 2> {
    noise::<B>(64, &here()).reshape([8, 8])
}

fn loss<B: AutodiffBackend>(model: &Linear<B>, x: Tensor<B, 2>) -> Tensor<B, 1> {
    (model.forward(x) - 1.0).square().mean() * 1e4
}

/// Adversarial training with the fast gradient sign method: each batch is moved along the sign of its own gradient.
/// The loss is large, so that the first passes in F16 overflow.
fn adversarial<B: AutodiffBackend>() -> (f32, f32) {
    let mut model = linear::<B>(8, 1);
    let mut optimizer = AdamConfig::new().init();
    let (mut first, mut last) = (f32::NAN, f32::NAN);
    for step in 0..60 {
        let x = batch::<B>().require_grad();
        let grads = loss(&model, x.clone()).backward();
        let sign = x.grad(&grads).unwrap().sign();
        let x = Tensor::from_inner(x.inner() + sign * 0.01);
        let loss = loss(&model, x);
        last = loss.clone().into_data().iter().next().unwrap();
        if step == 0 {
            first = last;
        }
        model = stepped(&mut optimizer, 0.02, loss, model);
    }
    (first, last)
}

policy!(
    /// F16 from a scale that is too large.
    TooLarge,
    in_f16(|it| {
        it.loss_scale.rule.init = 2f32.powi(24);
        it.loss_scale.rule.search = false;
    })
);

#[test]
fn adversarial_training_unwraps_its_gradients() {
    let _policy = enter::<TooLarge>();
    fn trains() {
        let (_, found) = adversarial::<B>();
        let (first, expected) = adversarial::<PlainAutodiff>();
        assert!(expected < 0.3 * first, "{first} -> {expected}");
        assert!(found < 0.4 * first, "{first} -> {found}, in f32 {expected}");
    }
    under_each!(trains, InBf16, InF16, TooLarge);
    let scale = loss_scale::<B>(&here());
    assert!(scale.skipped_steps() > 2);
}

/// With the host and without it, a gradient that is looked at is zeros after an overflow; a gradient that is taken for a
/// step is absent, or zeros that an `AmpOptimizer` knows to be undecided.
#[test]
fn a_gradient_that_is_looked_at_after_an_overflow_is_zeros() {
    fn zeros(removed: bool) {
        let weight = Tensor::<B, 2>::ones([2, 3], &here()).require_grad();
        for poison in [f32::INFINITY, f32::NAN] {
            let mut grads = (weight.clone() * poison).sum().backward();
            let gradient = weight.grad(&grads).unwrap().into_data();
            assert_eq!(gradient.to_vec::<f32>().unwrap(), [0.0; 6]);
            assert_eq!(weight.grad_remove(&mut grads).is_some(), removed);
            assert_eq!(grads.outcome(), Outcome::Overflowed);
            assert!(weight.grad(&grads).is_none());
        }
        // A tensor that the pass did not reach has no gradient, as on the plain backend.
        let other = Tensor::<B, 2>::ones([2, 3], &here()).require_grad();
        let grads = (weight.clone() * f32::NAN).sum().backward();
        assert!(other.grad(&grads).is_none());
    }
    policy!(Looked, computing_in(Compute::F16));
    policy!(LookedOnDevice, in_f16(|it| it.loss_scale.sync = false));
    within::<Looked, _>(|| zeros(false));
    within::<LookedOnDevice, _>(|| zeros(true));
}

/// The losses of five steps of L-BFGS whose passes are repeated until their gradients are finite.
fn lbfgs(size: f32, search: LineSearchFn) -> Vec<f64> {
    let mut model = linear::<B>(8, 1);
    let mut optimizer = LBFGSConfig::new().with_line_search_fn(search).init::<B>();
    (0..5)
        .map(|_| {
            let (stepped, loss) = optimizer.step(0.5, model.clone(), |model: Linear<B>| {
                let mut value = f64::NAN;
                let grads = backward_until_finite(|| {
                    let loss = loss(&model, batch()) * size;
                    value = loss.clone().into_data().iter().next().unwrap();
                    loss
                });
                (value, GradientsParams::from_grads(grads, &model))
            });
            model = stepped;
            loss
        })
        .collect()
}

#[test]
fn lbfgs_converges_with_passes_that_are_repeated() {
    // On a software driver a step takes a second.
    let sizes: &[f32] = if cfg!(feature = "cubecl") {
        &[1.0]
    } else {
        &[1e-4, 1.0, 1e4]
    };
    let converges = || {
        for &size in sizes {
            for search in [LineSearchFn::None, LineSearchFn::StrongWolfe] {
                let losses = lbfgs(size, search);
                println!("× {size}, {search:?}: {losses:?}");
                let first = loss(&linear::<PlainAutodiff>(8, 1), batch()) * size;
                let first: f64 = first.into_data().iter().next().unwrap();
                assert!(losses[4] < 1e-3 * first, "{first} -> {losses:?}");
            }
        }
    };
    under_each!(converges, InBf16, InF16, TooLarge);
}

#[test]
fn a_pass_is_repeated_only_where_that_helps() {
    fn config(mode: LossScaleMode, sync: bool) -> Config {
        in_f16(|it| {
            it.loss_scale.mode = mode;
            it.loss_scale.sync = sync;
        })
    }
    policy!(Moves, config(LossScaleMode::Dynamic, true));
    policy!(MovesOnDevice, config(LossScaleMode::Dynamic, false));
    policy!(Stays, config(LossScaleMode::Static, true));
    policy!(Off, config(LossScaleMode::Off, true));
    fn repetitions() -> (usize, Outcome) {
        let weight = Tensor::<B, 2>::ones([2, 2], &here()).require_grad();
        let mut repetitions = 0;
        let grads = backward_until_finite(|| {
            repetitions += 1;
            // Finite at a scale of 2^-4 or less.
            weight.clone().matmul(weight.clone()).sum() * 2f32.powi(19)
        });
        (repetitions, grads.outcome())
    }
    // The first overflow takes the scale from 16 to 2^-12.
    assert_eq!(within::<Moves, _>(repetitions), (2, Outcome::Finite));
    assert_eq!(
        within::<MovesOnDevice, _>(repetitions),
        (2, Outcome::Finite)
    );
    assert_eq!(within::<Stays, _>(repetitions), (1, Outcome::Overflowed));
    assert_eq!(within::<Off, _>(repetitions), (1, Outcome::Finite));
}
