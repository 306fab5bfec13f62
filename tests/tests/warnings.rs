//! Programs that train, but not as their author meant, get a warning, and get it once.
//!
//! These tests have a binary of their own, because each warning is given once per process.

use burn::tensor::f16;
use burn_amp::config::ParamPattern;
use burn_amp_tests::{apart::Amp, apart::AmpAutodiff, prelude::*, warnings::warnings_with};

fn layer<B: AutodiffBackend>() -> Linear<B> {
    LinearConfig::new(4, 3).init(&here())
}

fn loss<B: AutodiffBackend>(model: &Linear<B>) -> Tensor<B, 1> {
    let x = Tensor::<B, 2>::from_floats([[1.0, -0.5, 0.25, 2.0], [0.5, 1.5, -1.0, 0.0]], &here());
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
            model = stepped(&mut optimizer, 0.05, loss, model.clone());
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

policy!(O2, in_f16(|it| it.preset = Preset::O2));

#[test]
fn a_plain_optimizer_of_parameters_stored_low_is_warned_of_once() {
    type B = AmpAutodiff<O2>;
    let model = || cast_params(layer::<B>());
    let stored_low = || warnings_with("stored in f16").len();

    assert_eq!(stored_low(), 0);
    let adam = AdamConfig::new();
    train::<B>(model(), AmpOptimizer::new(adam.clone()).init());
    train::<B>(model(), MasterWeights::new(adam.clone()).init());
    // A plain optimizer is right for parameters in F32.
    train::<B>(layer(), adam.init());
    assert_eq!(stored_low(), 0);

    train::<B>(model(), adam.init());
    train::<B>(model(), SgdConfig::new().init());
    let [warning] = &warnings_with("stored in f16")[..] else {
        panic!("{} warnings", stored_low());
    };
    says(warning, REMEDY);
}

policy!(Goes, in_f16(|it| it.loss_scale.sync = false));

#[test]
fn a_plain_optimizer_of_gradients_whose_outcome_is_on_the_device_is_warned_of_once() {
    type B = AmpAutodiff<Goes>;
    let on_device = || warnings_with("still on the device").len();

    assert_eq!(on_device(), 0);
    let adam = AdamConfig::new();
    train::<B>(layer(), AmpOptimizer::new(adam.clone()).init());
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
    says(warning, REMEDY);
}

policy!(
    TooLarge,
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = 2f32.powi(40);
    })
);

#[test]
fn a_static_scale_that_overflows_step_after_step_is_warned_of_once() {
    type B = AmpAutodiff<TooLarge>;
    let of_static = || warnings_with("static loss scale").len();

    assert_eq!(of_static(), 0);
    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
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
    in_f16(|it| {
        it.loss_scale.rule.init = 0.5;
        it.loss_scale.rule.min = 0.5;
    })
);

/// Two losses in turn, of which one overflows at every scale: the other one's small gradients become zeros.
#[test]
fn overflows_at_the_smallest_scale_between_finite_steps_are_warned_of_once() {
    type B = AmpAutodiff<AtTheFloor>;
    let of_smallest = || warnings_with("smallest loss scale").len();

    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    for step in 0..40 {
        assert_eq!(of_smallest(), usize::from(step > 4));
        (weight.clone() * f32::NAN).sum().backward();
        weight.clone().sum().backward();
    }
    let [warning] = &warnings_with("smallest loss scale")[..] else {
        panic!("{} warnings", of_smallest());
    };
    says(warning, "5 times");
    says(warning, "own_loss_scale");
}

policy!(
    Falling,
    in_f16(|it| {
        it.loss_scale.rule.init = 2.0;
        it.loss_scale.rule.search = false;
    })
);

#[test]
fn a_loss_scale_that_falls_below_1_is_warned_of_once() {
    type B = AmpAutodiff<Falling>;
    let of_scale = || warnings_with("the loss scale fell below 1").len();

    let weight = Tensor::<B, 1>::ones([2], &here()).require_grad();
    for step in 0..4 {
        assert_eq!(of_scale(), usize::from(step > 1), "2, 1, 0.5, 0.25");
        (weight.clone() * f32::NAN).sum().backward();
    }
    let [warning] = &warnings_with("the loss scale fell below 1")[..] else {
        panic!("{} warnings", of_scale());
    };
    says(warning, "below 1, to 0.5");
    says(warning, "1 of 1 gradients not finite");
    says(warning, "own_loss_scale");
}

policy!(AtScale1, fixed_at(1.0));
policy!(AtScale16384, fixed_at(16384.0));

fn fixed_at(scale: f32) -> Config {
    in_f16(|it| {
        it.loss_scale.mode = LossScaleMode::Static;
        it.loss_scale.rule.init = scale;
    })
}

/// Passes whose gradient is noise of a size; whether the last of them was the first that is looked at.
fn small_gradients<B: AutodiffBackend>(noise: &[f32]) {
    let noise = Tensor::<B, 2>::from_data(TensorData::new(noise.to_vec(), [64, 64]), &here());
    let weight = Tensor::<B, 2>::ones([64, 64], &here()).require_grad();
    for _ in 0..128 {
        let y = Tensor::ones([64, 64], &here()).matmul(weight.clone());
        (y * noise.clone()).sum().backward();
    }
}

#[test]
fn gradients_that_f16_flushes_to_zero_are_warned_of_once() {
    const FLUSHED: &str = "f16 flushed at least";
    let of_flushed = || warnings_with(FLUSHED).len();

    // The standard deviation is 1.5 times the least number of F16.
    let normal = Distribution::Normal(0.0, 1.5 * 2f64.powi(-24));
    let noise = Tensor::<burn::backend::Flex, 2>::random([64, 64], normal, &here());
    let noise = noise.values();
    assert_eq!(of_flushed(), 0);
    small_gradients::<AmpAutodiff<AtScale16384>>(&noise);
    assert_eq!(of_flushed(), 0);
    small_gradients::<AmpAutodiff<AtScale1>>(&noise);
    let [warning] = &warnings_with(FLUSHED)[..] else {
        panic!("{} warnings", of_flushed());
    };

    // The oracle is the cast of the values themselves.
    let is_flushed = |x: &&f32| f16::from_f32(**x) == f16::ZERO;
    let flushed = noise.iter().filter(is_flushed).count() as f64 / noise.len() as f64;
    let said = warning.split_once(FLUSHED).unwrap().1;
    let said: f64 = said
        .trim_start()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // A lower bound, in whole percents. Of 4096 elements 0.7 % more or fewer is one standard deviation.
    assert!(said <= flushed * 100.0 + 3.0, "{said} of {flushed}");
    assert!(said >= 10.0 && flushed > 0.2, "{said} of {flushed}");
    says(warning, "of a gradient [64, 64]");
    says(warning, "at a loss scale of 1:");
}

policy!(InF16O1, computing_in(Compute::F16));

#[test]
fn a_loss_in_low_precision_is_warned_of_once() {
    type B = AmpAutodiff<InF16O1>;
    let of_loss = || warnings_with("the loss whose backward pass").len();
    let weight = Tensor::<B, 2>::full([1, 1], 0.5, &here()).require_grad();

    weight.clone().matmul(weight.clone()).sum().backward();
    assert_eq!(of_loss(), 0);
    weight.clone().matmul(weight.clone()).backward();
    weight.clone().matmul(weight).backward();
    let [warning] = &warnings_with("the loss whose backward pass")[..] else {
        panic!("{} warnings", of_loss());
    };
    says(warning, "is in f16");
}

#[test]
fn a_recorder_that_rounds_the_state_of_an_optimizer_is_warned_of_once() {
    type B = AmpAutodiff<InF16O1>;
    const ROUNDS: &str = "a recorder saves the state of an optimizer in f16";
    let optimizer = AmpOptimizer::new(AdamConfig::new()).init::<B, Linear<B>>();
    let save = |is_half: bool| {
        let record = optimizer.to_record();
        let saved = match is_half {
            true => Recorder::<B>::record(
                &BinBytesRecorder::<HalfPrecisionSettings>::default(),
                record,
                (),
            ),
            false => Recorder::<B>::record(
                &BinBytesRecorder::<FullPrecisionSettings>::default(),
                record,
                (),
            ),
        };
        let _: Vec<u8> = saved.unwrap();
    };
    save(false);
    assert!(warnings_with(ROUNDS).is_empty());
    save(true);
    save(true);
    assert_eq!(warnings_with(ROUNDS).len(), 1);
}

policy!(
    HeadInF32,
    in_bf16(|it| {
        it.parameters = [(ParamPattern::new("weight").unwrap(), Class::Full)].into();
    })
);

#[test]
fn parameters_whose_names_come_late_or_get_lost_are_warned_of_once() {
    type B = AmpAutodiff<HeadInF32>;
    const LATE: &str = "`weight` was read before its name was known";
    const LOST: &str = "those that a plain optimizer makes in its step have none";
    let named = || {
        let model = layer::<B>();
        name_parameters(&model);
        model
    };

    assert!(warnings_with(LATE).is_empty() && warnings_with(LOST).is_empty());
    train::<B>(named(), AmpOptimizer::new(AdamConfig::new()).init());
    assert!(warnings_with(LATE).is_empty() && warnings_with(LOST).is_empty());
    train::<B>(layer(), AmpOptimizer::new(AdamConfig::new()).init());
    assert_eq!(
        (warnings_with(LATE).len(), warnings_with(LOST).len()),
        (1, 0)
    );
    train::<B>(named(), AdamConfig::new().init());
    assert_eq!(
        (warnings_with(LATE).len(), warnings_with(LOST).len()),
        (1, 1)
    );
}
