//! Law: threads that train different models may have a loss scale each, which leaves the others alone, and everything
//! follows the scale of its pass.

use std::thread;

use burn_amp::{
    ranks::{self, Ranks, RanksError},
    scaling::{LossScale, own_loss_scale},
};
use burn_amp_tests::{models::linear, prelude::*};

type B = AmpAutodiff;

fn config(sync: bool) -> Config {
    in_f16(|it| it.loss_scale.sync = sync)
}

/// Trains for 30 steps with a loss multiplied by `size`; returns the weights.
fn train<B>(size: f32) -> Vec<f32>
where
    B: AutodiffBackend<InnerBackend: burn_amp::extend::Amped<Graph = burn_amp::extend::NoGraph>>
        + burn_amp::extend::Amped,
{
    let mut model = linear::<B>(8, 4);
    let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    for _ in 0..30 {
        let x = noise::<B>(64, &here()).reshape([8, 8]);
        let loss = (model.forward(x.clone()) - x.slice([0..8, 0..4]))
            .square()
            .mean();
        model = stepped(&mut optimizer, 0.01, loss * size, model);
    }
    model.weight.val().values()
}

#[test]
fn a_diverging_model_leaves_the_others_alone() {
    policy!(Together, config(true));
    policy!(TogetherOnDevice, config(false));
    fn alone_and_together() {
        fn own(size: f32) -> (Vec<f32>, LossScale) {
            let own = own_loss_scale::<B>(&here());
            let weights = train::<B>(size);
            own.loss_scale().settle();
            (weights, own.loss_scale())
        }
        let shared = loss_scale::<B>(&here());
        let (expected, scale) = own(1.0);
        assert_eq!((scale.scale(), scale.skipped_steps()), (65536.0, 0));

        let runs = [1.0, f32::INFINITY, 1.0].map(|size| thread::spawn(move || own(size)));
        let [first, diverging, last] = runs.map(thread::JoinHandle::join);
        for healthy in [first, last] {
            let (weights, scale) = healthy.unwrap();
            // Fusion may fuse the loops of several threads differently.
            if !cfg!(feature = "fusion") {
                assert_eq!(weights, expected);
            }
            assert_eq!(
                (scale.scale(), scale.steps(), scale.skipped_steps()),
                (65536.0, 30, 0)
            );
        }
        let message = *diverging.unwrap_err().downcast::<String>().unwrap();
        says(&message, "at the smallest scale 2^-24");
        assert_eq!(
            (shared.scale(), shared.steps(), shared.pending_steps()),
            (16.0, 0, 0)
        );
    }
    under_each!(alone_and_together, Together, TogetherOnDevice);
}

#[test]
fn a_guard_ends_with_its_scope() {
    let _policy = enter_config!(config(true));
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let scale = || loss_scale::<B>(&here()).scale();
    weight.clone().sum().backward();
    assert_eq!(scale(), 32.0);

    let outer = own_loss_scale::<B>(&here());
    assert_eq!(scale(), 16.0);
    let inner = own_loss_scale::<B>(&here());
    let kept = inner.loss_scale();
    for _ in 0..3 {
        weight.clone().sum().backward();
    }
    assert_eq!(scale(), 128.0);
    // In whatever order the guards are dropped.
    drop(outer);
    assert_eq!(scale(), 128.0);
    drop(inner);
    assert_eq!(scale(), 32.0);
    assert_eq!((kept.scale(), kept.steps()), (128.0, 3));
    // Another thread has the shared one.
    thread::scope(|scope| {
        let _own = own_loss_scale::<B>(&here());
        let there = scope.spawn(|| loss_scale::<B>(&here()).scale());
        assert_eq!(there.join().unwrap(), 32.0);
    });
}

/// Gradients are unscaled by the scale of their pass, on any thread and after the guard is gone.
#[cfg_attr(
    feature = "fusion",
    ignore = "burn-fusion 0.21.0 may lose tensors that another thread reads"
)]
#[test]
fn gradients_follow_the_scale_of_their_pass() {
    policy!(Followed, config(true));
    policy!(FollowedOnDevice, config(false));
    fn follow() {
        let pass = |passes: usize| {
            let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
            for _ in 0..passes {
                weight.clone().sum().backward();
            }
            let grads = (weight.clone() * 3.0).sum().backward();
            (weight, grads)
        };
        let there = thread::spawn(move || {
            let _own = own_loss_scale::<B>(&here());
            pass(5)
        });
        let (here, there) = (pass(2), there.join().unwrap());
        for ((weight, mut grads), scale) in [(here, 64.0), (there, 512.0)] {
            assert_eq!((grads.scale(), grads.outcome()), (scale, Outcome::Finite));
            let gradient = weight.grad_remove(&mut grads).unwrap().into_data();
            assert_eq!(gradient.to_vec::<f32>().unwrap(), [3.0, 3.0]);
        }
    }
    under_each!(follow, Followed, FollowedOnDevice);
}

/// Two threads on one shared scale: the scale of a pass is that of its loss, not the one that the host knows by then.
#[test]
fn a_pass_on_the_device_tells_its_own_scale() {
    let _policy = enter_config!(config(false));
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let passes: Vec<_> = (0..4)
        .map(|at| {
            let factor = if at == 2 { f32::INFINITY } else { 1.0 };
            (weight.clone() * factor).sum().backward()
        })
        .collect();
    // Asked in another order than made.
    let scales = [3, 1, 2, 0].map(|at| passes[at].scale());
    assert_eq!(scales, [32.0, 32.0, 64.0, 16.0]);
    loss_scale::<B>(&here()).settle();
    let skip = loss_scale::<B>(&here()).last_skip().unwrap();
    assert_eq!((skip.step, skip.scale), (2, 64.0));
}

#[test]
fn an_optimizer_saves_and_restores_the_scale_of_its_thread() {
    let _policy = enter_config!(config(true));
    type Optim =
        burn_amp::optim::LossScaleOptimizer<burn_amp::optim::AmpAdaptor<AdamConfig, Linear<B>, B>>;
    let optimizer = || -> Optim { AmpOptimizer::new(AdamConfig::new()).init() };
    let shared = loss_scale::<B>(&here());
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let record = {
        let _own = own_loss_scale::<B>(&here());
        weight.clone().sum().backward();
        weight.clone().sum().backward();
        Optimizer::<Linear<B>, B>::to_record(&optimizer())
    };
    assert_eq!(
        record
            .loss_scale(&here::<burn::tensor::Device<B>>())
            .unwrap()
            .scale(),
        64.0
    );
    {
        let own = own_loss_scale::<B>(&here());
        let _restored = optimizer().load_record(record.clone());
        assert_eq!(own.loss_scale().scale(), 64.0);
    }
    assert_eq!(shared.scale(), 16.0);
    let _restored = optimizer().load_record(record);
    assert_eq!(shared.scale(), 64.0);
}

/// A rank may have a loss scale of its own, made before or after it joined.
#[test]
fn ranks_agree_whichever_scale_they_use() {
    let _policy = enter_config!(config(true));
    struct Always;
    impl Ranks for Always {
        fn any(&self, _: bool) -> Result<bool, RanksError> {
            Ok(true)
        }
    }
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    let outcome = || weight.clone().sum().backward().outcome();
    {
        let _joined = ranks::join::<B>(&here(), Always);
        let own = own_loss_scale::<B>(&here());
        assert_eq!(outcome(), Outcome::Overflowed);
        assert_eq!(own.loss_scale().skipped_steps(), 1);
        drop(own);
        assert_eq!(outcome(), Outcome::Overflowed);
        assert_eq!(loss_scale::<B>(&here()).skipped_steps(), 1);
    }
    {
        let own = own_loss_scale::<B>(&here());
        let _joined = ranks::join::<B>(&here(), Always);
        assert_eq!(outcome(), Outcome::Overflowed);
        assert_eq!(own.loss_scale().skipped_steps(), 1);
    }
    assert_eq!(outcome(), Outcome::Finite);
}
