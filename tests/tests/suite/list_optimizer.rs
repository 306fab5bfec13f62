//! The optimizer of `AmpOptimizer` that steps all parameters together: it ends as Burn's own, parameter by parameter, and
//! either reads the other's files.

use std::fs;

use burn::{
    optim::{
        AdamConfig, AdamWConfig, GradientsParams, Optimizer, RmsPropConfig, SgdConfig,
        decay::WeightDecayConfig, momentum::MomentumConfig,
    },
    record::{
        BinFileRecorder, FileRecorder, FullPrecisionSettings, NamedMpkFileRecorder, Recorder,
    },
    tensor::backend::AutodiffBackend,
};
use burn_amp::{
    cast_params,
    extend::Amped,
    optim::{AmpAdaptor, AmpOptimizer, LossScaleOptimizer, OptimizerConfig},
};
use burn_amp_tests::{
    Amp, AmpAutodiff, Compute, Config, InF16, PlainAutodiff, computing_in,
    models::{load, save, seeded},
    policy,
};

use super::overflow::{Net, contents, poisoned};

policy!(
    StoredLow,
    Config {
        preset: burn_amp::config::Preset::O2,
        ..computing_in(Compute::F16)
    }
);

type B = AmpAutodiff<InF16>;
type Low = AmpAutodiff<StoredLow>;
type Fused<C, B> = LossScaleOptimizer<AmpAdaptor<C, Net<B>, B>>;

fn net<B: AutodiffBackend>() -> Net<B> {
    // Also for the ids of the parameters, which the record holds.
    static RECORD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let record = RECORD.get_or_init(|| seeded::<PlainAutodiff, _>(Net::<PlainAutodiff>::new));
    load::<B, _>(Net::new(&Default::default()), record.clone())
}

fn grads<B: AutodiffBackend>(net: &Net<B>, step: usize) -> GradientsParams {
    let (loss, _) = poisoned(net, step % 5, 0.5);
    GradientsParams::from_grads(loss.backward(), net)
}

fn steps<B: AutodiffBackend + Amped, O: Optimizer<Net<B>, B>>(
    mut net: Net<B>,
    optimizer: &mut O,
    steps: std::ops::Range<usize>,
) -> Net<B> {
    if steps.start == 0 {
        burn_amp::loss_scale::<B>(&Default::default()).reset();
    }
    for step in steps {
        let grads = grads(&net, step);
        net = optimizer.step(0.02, net, grads);
    }
    net
}

/// Asserts that both ways end at the same bits on a backend whose reference is Burn's ops, and near each other elsewhere.
fn assert_same(found: Vec<u8>, expected: Vec<u8>, what: &str) {
    if cfg!(not(feature = "cubecl")) {
        assert!(found == expected, "{what}");
    }
}

fn ends_as_one_by_one<C>(config: C)
where
    C: OptimizerConfig<Amp<InF16>> + OptimizerConfig<Amp<StoredLow>> + Clone + std::fmt::Debug,
{
    let optimizer = AmpOptimizer::new(config.clone());
    let mut together: Fused<C, B> = optimizer.init();
    let mut one_by_one: Fused<C, B> = optimizer.clone().unfused().init();
    assert!(together.inner().is_fused() && !one_by_one.inner().is_fused());
    let found = save::<B, _>(steps::<B, _>(net(), &mut together, 0..8));
    let expected = save::<B, _>(steps::<B, _>(net(), &mut one_by_one, 0..8));
    assert_same(found, expected, &format!("{config:?}"));

    let mut together: Fused<C, Low> = optimizer.init();
    let mut one_by_one: Fused<C, Low> = optimizer.unfused().init();
    let found = steps::<Low, _>(cast_params(net()), &mut together, 0..8);
    let expected = steps::<Low, _>(cast_params(net()), &mut one_by_one, 0..8);
    let [found, expected] = [found, expected].map(save::<Low, _>);
    assert_same(
        found,
        expected,
        &format!("{config:?}, stored in half precision"),
    );
}

#[test]
fn all_parameters_together_end_as_one_by_one() {
    let decay = || Some(WeightDecayConfig::new(0.01));
    let momentum = MomentumConfig::new();
    let clipping = burn::grad_clipping::GradientClippingConfig::Norm(0.1);
    ends_as_one_by_one(AdamConfig::new());
    ends_as_one_by_one(AdamConfig::new().with_grad_clipping(Some(clipping)));
    ends_as_one_by_one(
        AdamConfig::new()
            .with_amsgrad(true)
            .with_weight_decay(decay()),
    );
    ends_as_one_by_one(AdamWConfig::new().with_weight_decay(0.1));
    ends_as_one_by_one(AdamWConfig::new().with_cautious_weight_decay(true));
    ends_as_one_by_one(SgdConfig::new());
    ends_as_one_by_one(SgdConfig::new().with_momentum(Some(momentum.clone())));
    let nesterov = momentum.with_nesterov(true);
    ends_as_one_by_one(
        SgdConfig::new()
            .with_momentum(Some(nesterov))
            .with_weight_decay(decay()),
    );
}

#[test]
fn what_has_no_rule_steps_one_by_one_and_says_so() {
    let optimizer: Fused<RmsPropConfig, B> = AmpOptimizer::new(RmsPropConfig::new()).init();
    assert!(!optimizer.inner().is_fused());
}

/// A step does not write to parameters or states that somebody else holds.
#[test]
fn clones_of_the_model_and_of_the_optimizer_keep_their_values() {
    let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
    let model = steps::<B, _>(net(), &mut optimizer, 0..2);
    let (kept, kept_optimizer) = (model.clone(), optimizer.clone());
    let before = save::<B, _>(kept.clone());
    let state_before = contents::<B>(Optimizer::<Net<B>, B>::to_record(kept_optimizer.inner()));
    steps::<B, _>(model, &mut optimizer, 2..4);
    assert!(save::<B, _>(kept) == before);
    let state = contents::<B>(Optimizer::<Net<B>, B>::to_record(kept_optimizer.inner()));
    assert!(state == state_before);
}

/// Trains with one optimizer, moves its state through a file to another, and trains on.
fn goes_on<R: FileRecorder<B>>(
    recorder: &R,
    config: impl OptimizerConfig<Amp<InF16>> + Clone + std::fmt::Debug,
) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer");
    let device = Default::default();
    let burns = || LossScaleOptimizer::new(config.adaptor::<B, Net<B>>());
    let amps = || -> Fused<_, B> { AmpOptimizer::new(config.clone()).init() };
    let expected = save::<B, _>(steps::<B, _>(net(), &mut burns(), 0..8));

    let mut first = amps();
    let model = steps::<B, _>(net(), &mut first, 0..4);
    let record = Optimizer::<Net<B>, B>::to_record(first.inner());
    Recorder::<B>::record(recorder, record, file.clone()).unwrap();
    let record = Recorder::<B>::load(recorder, file.clone(), &device).unwrap();
    let mut second = burns().load_inner_record::<Net<B>, B>(record);
    let found = save::<B, _>(steps::<B, _>(model, &mut second, 4..8));
    assert_same(
        found,
        expected.clone(),
        &format!("from burn-amp to Burn: {config:?}"),
    );

    let mut first = burns();
    let model = steps::<B, _>(net(), &mut first, 0..4);
    let record = Optimizer::<Net<B>, B>::to_record(first.inner());
    Recorder::<B>::record(recorder, record, file.clone()).unwrap();
    let record = Recorder::<B>::load(recorder, file, &device).unwrap();
    let mut second = amps().load_inner_record::<Net<B>, B>(record);
    let found = save::<B, _>(steps::<B, _>(model, &mut second, 4..8));
    assert_same(
        found,
        expected,
        &format!("from Burn to burn-amp: {config:?}"),
    );
}

#[test]
fn burns_own_optimizer_and_this_one_read_each_others_files() {
    let momentum = Some(MomentumConfig::new());
    let named = NamedMpkFileRecorder::<FullPrecisionSettings>::default();
    goes_on(&named, AdamConfig::new());
    goes_on(&named, AdamConfig::new().with_amsgrad(true));
    goes_on(&named, AdamWConfig::new());
    goes_on(&named, SgdConfig::new().with_momentum(momentum.clone()));
    goes_on(&named, RmsPropConfig::new());
    let binary = BinFileRecorder::<FullPrecisionSettings>::default();
    goes_on(&binary, AdamConfig::new());
    goes_on(&binary, SgdConfig::new().with_momentum(momentum));
}

/// Steps a model stored in half precision, whose states hold masters, and saves the state.
#[test]
fn a_file_in_another_form_is_an_error_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer.mpk");
    let recorder = NamedMpkFileRecorder::<FullPrecisionSettings>::default();
    let device = Default::default();

    let mut optimizer: Fused<AdamConfig, Low> = AmpOptimizer::new(AdamConfig::new()).init();
    steps::<Low, _>(cast_params(net()), &mut optimizer, 0..2);
    let record = Optimizer::<Net<Low>, Low>::to_record(optimizer.inner());
    Recorder::<Low>::record(&recorder, record, file.clone()).unwrap();
    let bytes = fs::read(&file).unwrap();

    // Burn's Adam has no masters, and SGD other moments.
    type Adams =
        <burn::optim::adaptor::OptimizerAdaptor<burn::optim::Adam, Net<Low>, Low> as Optimizer<
            Net<Low>,
            Low,
        >>::Record;
    type Sgds = <AmpAdaptor<SgdConfig, Net<Low>, Low> as Optimizer<Net<Low>, Low>>::Record;
    let refused = Recorder::<Low>::load::<Adams>(&recorder, file.clone(), &device);
    let message = refused.err().expect("an error").to_string();
    assert!(
        message.contains("AmpList") && message.contains("V1"),
        "{message}"
    );
    assert!(fs::read(&file).unwrap() == bytes);

    let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
    steps::<B, _>(net(), &mut optimizer, 0..2);
    let record = Optimizer::<Net<B>, B>::to_record(optimizer.inner());
    Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let refused = Recorder::<Low>::load::<Sgds>(&recorder, file.clone(), &device);
    let message = refused.err().expect("an error").to_string();
    assert!(message.contains("velocity"), "{message}");
    assert!(fs::read(&file).unwrap() == bytes);
}
