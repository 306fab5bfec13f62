//! Programs that train, but not as their author meant, get a warning, and get it once.
//!
//! These tests have a binary of their own, because each warning is given once per process.

mod scale;

use burn::tensor::f16;
use burn_amp::config::ParamPattern;
use burn_amp_tests::{apart::Amp, apart::AmpAutodiff, prelude::*, warnings::warnings_with};

policy!(InF16O1, computing_in(Compute::F16));

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
