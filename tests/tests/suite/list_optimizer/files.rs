//! The files of its state.

use super::*;

/// Trains with one optimizer, moves its state through a file to another, and trains on.
fn goes_on<R: FileRecorder<B>>(
    recorder: &R,
    config: impl OptimizerConfig<Amp> + Clone + std::fmt::Debug,
) {
    let _policy = enter::<InF16>();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer");
    let burns = || LossScaleOptimizer::new(config.adaptor::<B, Net<B>>());
    let amps = || -> Fused<_, B> { AmpOptimizer::new(config.clone()).init() };
    let expected = save::<B, _>(steps::<B, _>(net(), &mut burns(), 0..8));

    macro_rules! goes_on {
        ($from:expr, $to:expr, $what:literal) => {{
            let mut first = $from;
            let model = steps::<B, _>(net(), &mut first, 0..4);
            let record = Optimizer::<Net<B>, B>::to_record(first.inner());
            Recorder::<B>::record(recorder, record, file.clone()).unwrap();
            let record = Recorder::<B>::load(recorder, file.clone(), &here()).unwrap();
            let mut second = $to.load_inner_record::<Net<B>, B>(record);
            let found = save::<B, _>(steps::<B, _>(model, &mut second, 4..8));
            assert_same(found, expected.clone(), &format!("{}: {config:?}", $what));
        }};
    }
    goes_on!(amps(), burns(), "from burn-amp to Burn");
    goes_on!(burns(), amps(), "from Burn to burn-amp");
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

    let write = || {
        let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
        steps::<B, _>(cast_params(net()), &mut optimizer, 0..2);
        let record = Optimizer::<Net<B>, B>::to_record(optimizer.inner());
        Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
        fs::read(&file).unwrap()
    };

    // Burn's Adam has no masters, and SGD other moments.
    type Adams = <OptimizerAdaptor<burn::optim::Adam, Net<B>, B> as Optimizer<Net<B>, B>>::Record;
    type Sgds = <AmpAdaptor<SgdConfig, Net<B>, B> as Optimizer<Net<B>, B>>::Record;
    let bytes = within::<StoredLow, _>(write);
    let refused = Recorder::<B>::load::<Adams>(&recorder, file.clone(), &here());
    let message = refused.err().expect("an error").to_string();
    says(&message, "AmpList");
    says(&message, "V1");
    assert!(fs::read(&file).unwrap() == bytes);

    let _policy = enter::<InF16>();
    let bytes = write();
    let refused = Recorder::<B>::load::<Sgds>(&recorder, file.clone(), &here());
    says(&refused.err().expect("an error").to_string(), "velocity");
    assert!(fs::read(&file).unwrap() == bytes);
}
