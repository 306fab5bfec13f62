//! Formats of moments and masters: what they learn, their files, and their memory.

use std::fs;

use burn_amp::{extend::NoGraph, optim::Moments};
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

policy!(
    /// Stores the matrices of the net in BF16.
    StoredBf16,
    in_bf16(|it| it.preset = Preset::O2)
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
    let masters = [
        Masters::F32,
        Masters::Split,
        Masters::Bits24,
        Masters::Stochastic,
    ];
    let pairs = moments
        .into_iter()
        .flat_map(|moments| masters.map(|masters| (moments, masters)));
    // On the software driver, where these are some of the longest tests, three of the eight.
    let step = if cfg!(feature = "cubecl") { 3 } else { 1 };
    for (moments, masters) in pairs.step_by(step) {
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
fn formats_change_with_the_configuration() {
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let bf16 = || adam().with_moments(Moments::Bf16);
    let bits8 = || adam().with_moments(Moments::Bits8);
    let masters = |form| bits8().with_masters(form);
    let (_, expected) = trained::<B>(&adam(), 100, &[]);
    for (before, after) in [
        (adam(), bf16()),
        (bf16(), adam()),
        (adam(), bits8()),
        (bits8(), bf16()),
        (bits8(), adam()),
        (adam(), masters(Masters::Bits24)),
        (masters(Masters::Bits24), adam()),
        (masters(Masters::Bits24), masters(Masters::Split)),
        (masters(Masters::Split), masters(Masters::Bits24)),
        (masters(Masters::Stochastic), masters(Masters::Bits24)),
        (masters(Masters::Bits24), masters(Masters::Stochastic)),
    ] {
        burn_amp::loss_scale::<B>(&here()).reset();
        let mut layer = cast_params(wide::layer::<B>());
        let mut optimizer: Of<AdamConfig, B> = before.init();
        let mut last = 0.0;
        for step in 0..100 {
            if step == 50 {
                optimizer = reloaded::<B, Layer<B>, _>(&optimizer, after.init());
            }
            let loss = wide::loss(&layer, step);
            last = loss.clone().into_scalar().elem::<f32>();
            layer = stepped(&mut optimizer, 0.01, loss, layer);
        }
        assert!(is_learned(last, expected), "{last}, with F32 {expected}");
    }
}

#[test]
fn a_file_of_one_format_is_read_by_an_optimizer_of_another() {
    under_each!(formats_change_with_the_configuration, InF16, StoredBf16);
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
        <OptimizerAdaptor<burn::optim::Adam, Layer<B>, B> as Optimizer<Layer<B>, B>>::Record;
    let refused = Recorder::<B>::load::<Burns>(&recorder, file.clone(), &here());
    says(&refused.err().expect("an error").to_string(), "AmpList");

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
    use burn_amp::memory;

    let layer = wide::layer::<B>();
    // The bias of 64 elements keeps its moments in F32.
    let [matrix, bias] = [64.0 * 64.0, 64.0];
    let adam = || AmpOptimizer::new(AdamConfig::new());
    let bf16 = || adam().with_moments(Moments::Bf16);
    let bits8 = || adam().with_moments(Moments::Bits8);
    // Two moments, each with 4 bytes for 128 elements.
    let scales = 2.0 * 4.0 / 128.0;
    use Preset::{O1, O2};
    let split = |optimizer: AmpOptimizer<_>| optimizer.with_masters(Masters::Split);
    let bits24 = |optimizer: AmpOptimizer<_>| optimizer.with_masters(Masters::Bits24);
    let stochastic = |optimizer: AmpOptimizer<_>| optimizer.with_masters(Masters::Stochastic);
    for (optimizer, preset, of_matrix, of_moments) in [
        (adam(), O1, 16.0, 8.0),
        (bf16(), O1, 12.0, 4.0),
        (bits8(), O1, 10.0 + scales, 2.0 + scales),
        (adam(), O2, 16.0, 8.0),
        (bf16(), O2, 12.0, 4.0),
        (bits8(), O2, 10.0 + scales, 2.0 + scales),
        (split(bf16()), O2, 10.0, 4.0),
        (split(bits8()), O2, 8.0 + scales, 2.0 + scales),
        (bits24(bf16()), O2, 9.0, 4.0),
        (bits24(bits8()), O2, 7.0 + scales, 2.0 + scales),
        (stochastic(bf16()), O2, 8.0, 4.0),
        (stochastic(bits8()), O2, 6.0 + scales, 2.0 + scales),
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
