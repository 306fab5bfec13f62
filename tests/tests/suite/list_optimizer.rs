//! Law: the optimizer that steps all parameters together ends as Burn's own, parameter by parameter, and either reads
//! the other's files.

use std::fs;

use burn::record::{FileRecorder, NamedMpkFileRecorder};
use burn_amp::{extend::NoGraph, optim::Moments};
use burn_amp_tests::{
    net::{Net, contents, poisoned},
    prelude::*,
};

policy!(
    StoredLow,
    in_f16(|it| it.preset = burn_amp::config::Preset::O2)
);

type B = AmpAutodiff;
type Fused<C, B> = LossScaleOptimizer<AmpAdaptor<C, Net<B>, B>>;

/// A net that has the same weights and ids on every backend and in every process.
fn net<B: AutodiffBackend>() -> Net<B> {
    static RECORD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let record = RECORD.get_or_init(|| {
        let net = Net::<PlainAutodiff>::new(&here());
        save::<PlainAutodiff, _>(net.map(&mut Fixed))
    });
    load::<B, _>(Net::new(&here()), record.clone())
}

/// Gives parameters fixed values.
struct Fixed;

impl<B: AutodiffBackend> ModuleMapper<B> for Fixed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| {
            let shape = tensor.shape();
            noise::<B>(shape.num_elements(), &tensor.device()).reshape(shape)
        })
    }
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
        burn_amp::loss_scale::<B>(&here()).reset();
    }
    for step in steps {
        let grads = grads(&net, step);
        net = optimizer.step(0.02, net, grads);
    }
    net
}

/// Asserts that both nets have the same bits where the op on a list is Burn's ops, and are near each other elsewhere.
fn assert_same(found: Vec<u8>, expected: Vec<u8>, what: &str) {
    if cfg!(not(feature = "cubecl")) {
        return assert!(found == expected, "{what}");
    }
    let [found, expected] = [found, expected].map(|net| {
        let net = load::<PlainAutodiff, _>(Net::new(&here()), net);
        let mut values = Values(Vec::new());
        net.visit(&mut values);
        values.0
    });
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.into_iter().zip(expected) {
        // Eight steps of at most 0.02, each of them with the rounding of a few ops in F32; a value in F16 may be rounded to
        // its neighbour.
        let error = (found - expected).abs();
        assert!(error < 2e-3, "{what}: {found} and not {expected}");
    }
}

/// The values of all parameters.
struct Values(Vec<f32>);

impl<B: AutodiffBackend> ModuleVisitor<B> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.extend(param.val().into_data().iter::<f32>());
    }
}

fn ends_as_one_by_one<C>(config: C)
where
    C: OptimizerConfig<Amp> + Clone + std::fmt::Debug,
{
    let of_f32 = enter::<InF16>();
    let optimizer = AmpOptimizer::new(config.clone());
    let mut together: Fused<C, B> = optimizer.init();
    let one_by_one = AmpOptimizer::new(OneByOne(config.clone()));
    let mut burns: Fused<OneByOne<C>, B> = one_by_one.init();
    assert!(together.inner().is_fused() && !burns.inner().is_fused());
    let found = save::<B, _>(steps::<B, _>(net(), &mut together, 0..8));
    let expected = save::<B, _>(steps::<B, _>(net(), &mut burns, 0..8));
    assert_same(found, expected, &format!("{config:?}"));

    drop(of_f32);
    let _policy = enter::<StoredLow>();
    let mut together: Fused<C, B> = optimizer.init();
    let mut burns: Fused<OneByOne<C>, B> = one_by_one.init();
    let found = steps::<B, _>(cast_params(net()), &mut together, 0..8);
    let expected = steps::<B, _>(cast_params(net()), &mut burns, 0..8);
    let [found, expected] = [found, expected].map(save::<B, _>);
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

policy!(
    /// F32 throughout.
    InF32,
    changed(Config::default(), |it| it.preset = burn_amp::config::Preset::O0)
);

/// On a software driver a step takes a twentieth of a second.
const MANY: usize = if cfg!(feature = "cubecl") { 40 } else { 300 };

/// Takes [`MANY`] steps; returns the net and its last loss.
fn many_steps<B: AutodiffBackend>(mut optimizer: impl Optimizer<Net<B>, B>) -> (Vec<u8>, f32) {
    let mut net = net::<B>();
    let mut last = 0.0;
    for step in 0..MANY {
        let (loss, _) = poisoned(&net, step % 5, 0.1);
        last = loss.clone().into_scalar().elem();
        net = stepped(&mut optimizer, 0.005, loss, net);
    }
    (save::<B, _>(net), last)
}

fn ends_as_burns_own<C>(config: C)
where
    C: OptimizerConfig<Plain> + OptimizerConfig<Amp> + Clone + std::fmt::Debug,
{
    let _policy = enter::<InF32>();
    let (burns, expected) = many_steps::<PlainAutodiff>(config.adaptor::<PlainAutodiff, _>());
    let list: Fused<C, B> = AmpOptimizer::new(config.clone()).init();
    assert!(list.inner().is_fused());
    let (found, loss) = many_steps::<B>(list);
    if cfg!(not(feature = "cubecl")) {
        assert!(found == burns, "{config:?}");
        assert_eq!(loss, expected, "{config:?}");
    }
    println!("{config:?}: loss {loss}, of Burn's {expected}");
    // Where rounding may differ by an ulp per step.
    assert!(
        (loss - expected).abs() <= 1e-4 * expected.abs().max(0.1),
        "{config:?}: {loss} and not {expected}"
    );
}

/// In F32 the list is Burn's own optimizer, with every option.
///
/// A GPU backend takes each option once and not in all combinations: the tests of the kernel compare single steps of
/// those.
#[test]
fn many_steps_in_f32_end_as_burns_own() {
    let combines = cfg!(not(feature = "cubecl"));
    let decay = || Some(WeightDecayConfig::new(0.01));
    for amsgrad in [false, true] {
        let adam = AdamConfig::new().with_amsgrad(amsgrad);
        if combines || !amsgrad {
            ends_as_burns_own(adam.clone());
        }
        if combines || amsgrad {
            ends_as_burns_own(adam.with_weight_decay(decay()));
        }
        for cautious in [false, true] {
            for weight_decay in [0.0, 0.1] {
                if combines || (cautious == amsgrad && weight_decay > 0.0) {
                    let adam_w = AdamWConfig::new()
                        .with_amsgrad(amsgrad)
                        .with_cautious_weight_decay(cautious);
                    ends_as_burns_own(adam_w.with_weight_decay(weight_decay));
                }
            }
        }
    }
    let momentum = MomentumConfig::new;
    let nesterov = || momentum().with_nesterov(true);
    let undampened = || momentum().with_dampening(0.0);
    let momenta = [None, Some(momentum()), Some(nesterov()), Some(undampened())];
    for (index, momentum) in momenta.into_iter().enumerate() {
        let sgd = SgdConfig::new().with_momentum(momentum);
        if combines || index % 2 == 0 {
            ends_as_burns_own(sgd.clone());
        }
        if combines || index % 2 == 1 {
            ends_as_burns_own(sgd.with_weight_decay(decay()));
        }
    }
}

#[test]
fn what_has_no_rule_steps_one_by_one_and_says_so() {
    let _policy = enter::<InF16>();
    let optimizer: Fused<RmsPropConfig, B> = AmpOptimizer::new(RmsPropConfig::new()).init();
    assert!(!optimizer.inner().is_fused());
}

/// A step does not write to parameters or states that somebody else holds.
#[test]
fn clones_of_the_model_and_of_the_optimizer_keep_their_values() {
    let _policy = enter::<InF16>();
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
    config: impl OptimizerConfig<Amp> + Clone + std::fmt::Debug,
) {
    let _policy = enter::<InF16>();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer");
    let burns = || LossScaleOptimizer::new(config.adaptor::<B, Net<B>>());
    let amps = || -> Fused<_, B> { AmpOptimizer::new(config.clone()).init() };
    let expected = save::<B, _>(steps::<B, _>(net(), &mut burns(), 0..8));

    let mut first = amps();
    let model = steps::<B, _>(net(), &mut first, 0..4);
    let record = Optimizer::<Net<B>, B>::to_record(first.inner());
    Recorder::<B>::record(recorder, record, file.clone()).unwrap();
    let record = Recorder::<B>::load(recorder, file.clone(), &here()).unwrap();
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
    let record = Recorder::<B>::load(recorder, file, &here()).unwrap();
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

    let stored_low = enter::<StoredLow>();
    let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
    steps::<B, _>(cast_params(net()), &mut optimizer, 0..2);
    let record = Optimizer::<Net<B>, B>::to_record(optimizer.inner());
    Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
    let bytes = fs::read(&file).unwrap();

    // Burn's Adam has no masters, and SGD other moments.
    type Adams =
        <burn::optim::adaptor::OptimizerAdaptor<burn::optim::Adam, Net<B>, B> as Optimizer<
            Net<B>,
            B,
        >>::Record;
    type Sgds = <AmpAdaptor<SgdConfig, Net<B>, B> as Optimizer<Net<B>, B>>::Record;
    let refused = Recorder::<B>::load::<Adams>(&recorder, file.clone(), &here());
    let message = refused.err().expect("an error").to_string();
    says(&message, "AmpList");
    says(&message, "V1");
    assert!(fs::read(&file).unwrap() == bytes);

    drop(stored_low);
    let _policy = enter::<InF16>();
    let mut optimizer: Fused<AdamConfig, B> = AmpOptimizer::new(AdamConfig::new()).init();
    steps::<B, _>(net(), &mut optimizer, 0..2);
    let record = Optimizer::<Net<B>, B>::to_record(optimizer.inner());
    Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
    let bytes = fs::read(&file).unwrap();
    let refused = Recorder::<B>::load::<Sgds>(&recorder, file.clone(), &here());
    let message = refused.err().expect("an error").to_string();
    says(&message, "velocity");
    assert!(fs::read(&file).unwrap() == bytes);
}

policy!(
    /// Stores the matrices of the net in BF16.
    StoredBf16,
    in_bf16(|it| it.preset = burn_amp::config::Preset::O2)
);

/// A layer that is large enough for moments in fewer bytes, and a target.
mod wide {
    use burn_amp_tests::prelude::*;

    pub const WIDTH: usize = 64;

    pub fn layer<B: AutodiffBackend>() -> Linear<B> {
        static RECORD: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let config = || LinearConfig::new(WIDTH, WIDTH);
        let record = RECORD
            .get_or_init(|| seeded::<PlainAutodiff, Linear<_>>(|device| config().init(device)));
        load::<B, _>(config().init(&here()), record.clone())
    }

    /// The squared distance from a rotation of the input.
    pub fn loss<B: AutodiffBackend>(layer: &Linear<B>, step: usize) -> Tensor<B, 1> {
        let offset = step % 7;
        let x = noise::<B>(32 * WIDTH + offset, &here()).slice([offset..]);
        let x = x.reshape([32, WIDTH]);
        let target = x.clone().flip([1]);
        (layer.forward(x) - target).square().mean()
    }
}

type Layer<B> = burn::nn::Linear<B>;
type Of<C, B> = LossScaleOptimizer<AmpAdaptor<C, Layer<B>, B>>;

/// Trains for some steps; before each of the `stops` the optimizer goes through a file. Returns the parameters and the
/// last loss.
fn trained<B>(optimizer: &AmpOptimizer<AdamConfig>, steps: usize, stops: &[usize]) -> (Vec<u8>, f32)
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> + Amped,
{
    let _policy = enter::<InF16>();
    burn_amp::loss_scale::<B>(&here()).reset();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer");
    let recorder = BinFileRecorder::<FullPrecisionSettings>::default();
    let mut layer = cast_params(wide::layer::<B>());
    let mut now: Of<AdamConfig, B> = optimizer.init();
    let mut last = 0.0;
    for step in 0..steps {
        if stops.contains(&step) {
            let record = Optimizer::<Layer<B>, B>::to_record(&now);
            Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
            let record = Recorder::<B>::load(&recorder, file.clone(), &here()).unwrap();
            now = optimizer.init();
            now = Optimizer::<Layer<B>, B>::load_record(now, record);
        }
        let loss = wide::loss(&layer, step);
        last = loss.clone().into_scalar().elem();
        layer = stepped(&mut now, 0.01, loss, layer);
    }
    (save::<B, _>(layer), last)
}

/// Whether a loss fell by nine tenths of the orders of magnitude by which it falls with F32 moments and masters. The last
/// digits of a product, which differ between processors, alone make a tenth more or less of a small loss.
fn is_learned(loss: f32, expected: f32) -> bool {
    let first: f32 = wide::loss(&wide::layer::<PlainAutodiff>(), 0)
        .into_scalar()
        .elem();
    (first / loss).ln() > 0.9 * (first / expected).ln()
}

/// Every format of moments and masters reaches the loss of F32 moments and masters, and goes on after each of twenty stops
/// as if nothing had happened, bit for bit.
fn formats_learn_and_resume() {
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let (_, expected) = trained::<B>(&adam(), 150, &[]);
    let moments = [Moments::Bf16, Moments::Bits8];
    let masters = [Masters::F32, Masters::Split, Masters::Stochastic];
    for (moments, masters) in moments
        .into_iter()
        .flat_map(|moments| masters.map(|masters| (moments, masters)))
    {
        let optimizer = adam().with_masters(masters).with_moments(moments);
        let (left, loss) = trained::<B>(&optimizer, 150, &[]);
        let stops: Vec<_> = (1..=20).map(|stop| 7 * stop).collect();
        let (resumed, _) = trained::<B>(&optimizer, 150, &stops);
        assert!(left == resumed, "{masters:?}, {moments:?}");
        println!("{masters:?}, {moments:?}: loss {loss}, with F32 {expected}");
        assert!(
            is_learned(loss, expected),
            "{masters:?}, {moments:?}: {loss}, with F32 {expected}"
        );
        let (other, _) = trained::<B>(&optimizer.with_seed(1), 150, &[]);
        assert!(left != other, "{masters:?}: the seed has no effect");
    }
}

#[test]
fn rounded_moments_learn_as_those_in_f32_and_resume_bit_for_bit() {
    under_each!(formats_learn_and_resume, InF16, StoredBf16);
}

/// A file of one format is read by an optimizer of another.
#[test]
fn formats_change_with_the_configuration() {
    let _policy = enter::<InF16>();
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let bf16 = || adam().with_moments(Moments::Bf16);
    let bits8 = || adam().with_moments(Moments::Bits8);
    let (_, expected) = trained::<B>(&adam(), 100, &[]);
    for (before, after) in [
        (adam(), bf16()),
        (bf16(), adam()),
        (adam(), bits8()),
        (bits8(), bf16()),
        (bits8(), adam()),
    ] {
        burn_amp::loss_scale::<B>(&here()).reset();
        let mut layer = wide::layer::<B>();
        let mut optimizer: Of<AdamConfig, B> = before.init();
        let mut last = 0.0;
        for step in 0..100 {
            if step == 50 {
                let record = Optimizer::<Layer<B>, B>::to_record(&optimizer);
                let bytes: Vec<u8> = Recorder::<B>::record(&recorder, record, ()).unwrap();
                let record = Recorder::<B>::load(&recorder, bytes, &here()).unwrap();
                optimizer = Optimizer::<Layer<B>, B>::load_record(after.init(), record);
            }
            let loss = wide::loss(&layer, step);
            last = loss.clone().into_scalar().elem::<f32>();
            layer = stepped(&mut optimizer, 0.01, loss, layer);
        }
        assert!(is_learned(last, expected), "{last}, with F32 {expected}");
    }
}

/// A file with moments in blocks names its format. One whose tensors do not fit is refused, and stays as it is.
#[test]
fn a_file_of_blocks_that_does_not_fit_is_an_error_and_stays_as_it_is() {
    let _policy = enter::<InF16>();
    use burn::record::PrettyJsonFileRecorder;

    type Record = <AmpAdaptor<AdamConfig, Layer<B>, B> as Optimizer<Layer<B>, B>>::Record;
    burn_amp::loss_scale::<B>(&here()).reset();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("optimizer.json");
    let recorder = PrettyJsonFileRecorder::<FullPrecisionSettings>::default();
    let adam = AmpOptimizer::new(AdamConfig::new()).with_moments(Moments::Bits8);
    let mut optimizer: Of<AdamConfig, B> = adam.init();
    let layer = wide::layer::<B>();
    let grads = GradientsParams::from_grads(wide::loss(&layer, 0).backward(), &layer);
    optimizer.step(0.01, layer, grads);
    let record = Optimizer::<Layer<B>, B>::to_record(optimizer.inner());
    Recorder::<B>::record(&recorder, record, file.clone()).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    let load = || Recorder::<B>::load::<Record>(&recorder, file.clone(), &here());
    assert!(text.contains("Bits8") && load().is_ok());

    // Burn's own Adam has no such moments.
    type Burns =
        <burn::optim::adaptor::OptimizerAdaptor<burn::optim::Adam, Layer<B>, B> as Optimizer<
            Layer<B>,
            B,
        >>::Record;
    let refused = Recorder::<B>::load::<Burns>(&recorder, file.clone(), &here());
    let message = refused.err().expect("an error").to_string();
    says(&message, "AmpList");

    for (was, is, mentions) in [
        ("\"Bits8\"", "\"Bf16\"", "BF16 moment"),
        ("\"Bits8\"", "\"Bits4\"", "Bits4"),
    ] {
        assert!(text.contains(was));
        let changed = text.replace(was, is);
        fs::write(&file, &changed).unwrap();
        let message = load().err().expect("an error").to_string();
        says(&message, mentions);
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
    }
}

/// What the states take in a file, which is what they take on the device, and what the estimate says.
#[test]
fn the_estimate_knows_every_format() {
    let _policy = enter::<InF16>();
    use burn_amp::{config::Preset, memory};

    let layer = wide::layer::<B>();
    // The bias of 64 elements keeps its moments in F32.
    let [matrix, bias] = [64.0 * 64.0, 64.0];
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let bf16 = || adam().with_moments(Moments::Bf16);
    let bits8 = || adam().with_moments(Moments::Bits8);
    // Two moments, each with 4 bytes for 128 elements.
    let scales = 2.0 * 4.0 / 128.0;
    for (optimizer, preset, of_matrix, of_moments) in [
        (adam(), Preset::O1, 16.0, 8.0),
        (bf16(), Preset::O1, 12.0, 4.0),
        (bits8(), Preset::O1, 10.0 + scales, 2.0 + scales),
        (adam(), Preset::O2, 16.0, 8.0),
        (bf16(), Preset::O2, 12.0, 4.0),
        (bits8(), Preset::O2, 10.0 + scales, 2.0 + scales),
        (bf16().with_masters(Masters::Split), Preset::O2, 10.0, 4.0),
        (
            bits8().with_masters(Masters::Split),
            Preset::O2,
            8.0 + scales,
            2.0 + scales,
        ),
        (
            bf16().with_masters(Masters::Stochastic),
            Preset::O2,
            8.0,
            4.0,
        ),
        (
            bits8().with_masters(Masters::Stochastic),
            Preset::O2,
            6.0 + scales,
            2.0 + scales,
        ),
    ] {
        let of_bias =
            memory::estimate(&layer, preset, &optimizer).total() as f64 - of_matrix * matrix;
        assert_eq!(
            of_bias,
            (of_matrix + 8.0 - of_moments) * bias,
            "{preset:?}, {of_matrix}"
        );
    }
}
