//! Programs that train, but not as their author meant, get a warning, and get it once.
//!
//! These tests have a binary of their own, because each warning is given once per process.

use burn::{
    nn::{Linear, LinearConfig, Relu},
    optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig},
    tensor::{Tensor, backend::AutodiffBackend},
};
use burn_amp::{
    cast_params,
    config::Preset,
    optim::{AmpOptimizer, LossScaleOptimizer, MasterWeights, SkipOnDevice},
};
use burn_amp_tests::{
    Amp, AmpAutodiff, Compute, Config, DynamicLossScale, InF16, LossScaleConfig, LossScaleMode,
    computing_in, policy, warnings::warnings_with,
};

fn layer<B: AutodiffBackend>() -> Linear<B> {
    LinearConfig::new(4, 3).init(&Default::default())
}

fn loss<B: AutodiffBackend>(model: &Linear<B>) -> Tensor<B, 1> {
    let device = Default::default();
    let x = Tensor::<B, 2>::from_floats([[1.0, -0.5, 0.25, 2.0], [0.5, 1.5, -1.0, 0.0]], &device);
    (Relu::new().forward(model.forward(x) + 1.0) - 0.5)
        .square()
        .mean()
}

/// Trains for 20 steps and returns the losses.
fn train<B: AutodiffBackend>(
    mut model: Linear<B>,
    mut optimizer: impl Optimizer<Linear<B>, B>,
) -> Vec<f32> {
    (0..20)
        .map(|_| {
            let loss = loss(&model);
            let value = loss.clone().into_data().iter().next().unwrap();
            let grads = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(0.05, model.clone(), grads);
            value
        })
        .collect()
}

#[test]
fn burns_autodiff_outside_of_amp_trains_and_is_warned_of_once() {
    type B = burn::backend::Autodiff<Amp<InF16>>;
    const REMEDY: &str = "use burn_amp::Autodiff<Amp<_>>";

    assert!(warnings_with(REMEDY).is_empty());
    let losses = train::<B>(layer(), SgdConfig::new().init());
    // How far it falls depends on the random weights that it starts from.
    assert!(losses[19] < losses[0], "{losses:?}");
    assert_eq!(warnings_with(REMEDY).len(), 1);
}

const REMEDY: &str = "AmpOptimizer::new(AdamConfig::new()).init()";

policy!(
    O2,
    Config {
        preset: Preset::O2,
        ..computing_in(Compute::F16)
    }
);

#[test]
fn a_plain_optimizer_of_parameters_stored_low_is_warned_of_once() {
    type B = AmpAutodiff<O2>;
    let model = || cast_params(layer::<B>());
    let stored_low = || warnings_with("stored in f16").len();

    assert_eq!(stored_low(), 0);
    let adam = AdamConfig::new();
    train::<B>(model(), AmpOptimizer::new(adam.clone()).init());
    train::<B>(model(), MasterWeights::new(adam.clone()).init());
    train::<B>(
        model(),
        SkipOnDevice::new(MasterWeights::new(adam.clone())).init(),
    );
    // A plain optimizer is right for parameters in F32.
    train::<B>(layer(), adam.init());
    assert_eq!(stored_low(), 0);

    train::<B>(model(), adam.init());
    train::<B>(model(), SgdConfig::new().init());
    let [warning] = &warnings_with("stored in f16")[..] else {
        panic!("{} warnings", stored_low());
    };
    assert!(warning.contains(REMEDY), "{warning}");
}

policy!(
    Goes,
    Config {
        loss_scale: LossScaleConfig {
            sync: false,
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
);

#[test]
fn a_plain_optimizer_of_gradients_whose_outcome_is_on_the_device_is_warned_of_once() {
    type B = AmpAutodiff<Goes>;
    let on_device = || warnings_with("still on the device").len();

    assert_eq!(on_device(), 0);
    let adam = AdamConfig::new();
    train::<B>(layer(), AmpOptimizer::new(adam.clone()).init());
    train::<B>(layer(), SkipOnDevice::new(adam.clone()).init());
    train::<B>(
        layer(),
        MasterWeights::new(SkipOnDevice::new(adam.clone())).init(),
    );
    assert_eq!(on_device(), 0);
    // This optimizer waits for the device, and warns of that instead.
    train::<B>(layer(), LossScaleOptimizer::new(adam.init()));
    assert_eq!(on_device(), 0);
    assert_eq!(warnings_with("waits for the device in every step").len(), 1);

    train::<B>(layer(), adam.init());
    train::<B>(layer(), MasterWeights::new(adam).init());
    let [warning] = &warnings_with("still on the device")[..] else {
        panic!("{} warnings", on_device());
    };
    assert!(warning.contains(REMEDY), "{warning}");
}

policy!(
    TooLarge,
    Config {
        loss_scale: LossScaleConfig {
            mode: LossScaleMode::Static,
            rule: DynamicLossScale {
                init: 2f32.powi(40),
                ..DynamicLossScale::default()
            },
            ..LossScaleConfig::default()
        },
        ..computing_in(Compute::F16)
    }
);

#[test]
fn a_static_scale_that_overflows_step_after_step_is_warned_of_once() {
    type B = AmpAutodiff<TooLarge>;
    let of_static = || warnings_with("static loss scale").len();

    assert_eq!(of_static(), 0);
    let weight = Tensor::<B, 1>::ones([2], &Default::default()).require_grad();
    let pass = |factor: f32| {
        (weight.clone() * factor).sum().backward();
    };
    for _ in 0..3 {
        // Nine overflows in a row are not yet step after step.
        (0..9).for_each(|_| pass(f32::NAN));
        pass(1.0);
    }
    assert_eq!(of_static(), 0);

    let losses = train::<B>(layer(), SgdConfig::new().init());
    assert_eq!(losses[0], losses[19]);
    let [warning] = &warnings_with("static loss scale")[..] else {
        panic!("{} warnings", of_static());
    };
    for part in [
        "10 steps in a row",
        "2^40",
        "2 of 2 gradients",
        "loss_scale.init",
    ] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    let _ = train::<B>(layer(), SgdConfig::new().init());
    assert_eq!(of_static(), 1);
}

policy!(
    AtTheFloor,
    Config {
        loss_scale: DynamicLossScale {
            init: 0.5,
            min: 0.5,
            ..DynamicLossScale::default()
        }
        .into(),
        ..computing_in(Compute::F16)
    }
);

/// Two losses in turn, of which one overflows at every scale: the other one's small gradients become zeros.
#[test]
fn overflows_at_the_smallest_scale_between_finite_steps_are_warned_of_once() {
    type B = AmpAutodiff<AtTheFloor>;
    let of_smallest = || warnings_with("smallest loss scale").len();

    let weight = Tensor::<B, 1>::ones([2], &Default::default()).require_grad();
    for step in 0..40 {
        assert_eq!(of_smallest(), usize::from(step > 4));
        (weight.clone() * f32::NAN).sum().backward();
        weight.clone().sum().backward();
    }
    let [warning] = &warnings_with("smallest loss scale")[..] else {
        panic!("{} warnings", of_smallest());
    };
    assert!(warning.contains("5 times"), "{warning}");
    assert!(warning.contains("own_loss_scale"), "{warning}");
}
