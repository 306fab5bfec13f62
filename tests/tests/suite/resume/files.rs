//! Records of loss scales and optimizers, and files that are none.

use super::*;

/// A record as it was written before there was a search for the first scale.
fn of_version_1() -> LossScaleRecord {
    serde_json::from_value(serde_json::json!({
        "loss_scale_version": 1, "scale": 65536.0, "growth_tracker": 7, "hysteresis": 1, "steps": 9, "skipped_steps": 2,
    }))
    .unwrap()
}

#[test]
fn a_record_of_version_1_goes_on_without_a_search() {
    let _policy = enter_config!(computing_in(Compute::F16));
    let handle = loss_scale::<B>(&here());
    assert_eq!(handle.scale(), 16.0);
    handle.load(of_version_1());
    let weight = burn::tensor::Tensor::<B, 1>::ones([2], &here()).require_grad();
    weight.clone().sum().backward();
    assert_eq!(
        (handle.scale(), handle.growth_tracker(), handle.steps()),
        (65536.0, 8, 10)
    );
    assert_eq!(handle.skipped_steps(), 2);
}

/// The state survives every recorder, half precision included.
#[test]
fn the_loss_scale_survives_every_recorder() {
    fn survives<FR: FileRecorder<B>>(recorder: FR) {
        let _policy = enter::<InTheChild>();
        let file = tempfile::tempdir().unwrap();
        let searching = loss_scale::<B>(&here()).record();
        assert_eq!(searching.scale(), 16.0);
        for record in [of_version_1(), searching] {
            recorder
                .clone()
                .record(record, file.path().join("scale"))
                .unwrap();
            let loaded: LossScaleRecord =
                recorder.load(file.path().join("scale"), &here()).unwrap();
            assert_eq!(loaded, record);
        }
    }
    survives(DefaultRecorder::new());
    survives(CompactRecorder::new());
    survives(BinFileRecorder::<FullPrecisionSettings>::new());
    survives(PrettyJsonFileRecorder::<FullPrecisionSettings>::new());
}

/// Returns the error of loading a file that holds something else; asserts that the file is unchanged.
fn refused<R: Record<Plain>, FR: FileRecorder<Plain>>(
    recorder: &FR,
    path: &Path,
    content: &[u8],
) -> String {
    let file = path.with_extension(FR::file_extension());
    fs::write(&file, content).unwrap();
    let error = match recorder.load::<R>(path.to_path_buf(), &here()) {
        Ok(_) => panic!("{} was read", file.display()),
        Err(RecorderError::Unknown(message) | RecorderError::DeserializeError(message)) => message,
        Err(error) => error.to_string(),
    };
    assert_eq!(fs::read(&file).unwrap(), content);
    error
}

#[test]
fn a_file_that_is_no_checkpoint_is_an_error_and_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("scale");
    let json = PrettyJsonFileRecorder::<FullPrecisionSettings>::new();
    let record = of_version_1();
    Recorder::<Plain>::record(&json, record, path.clone()).unwrap();
    let good = fs::read_to_string(path.with_extension("json")).unwrap();
    let refuses = |content: &str, expected: &str| {
        let message = refused::<LossScaleRecord, _>(&json, &path, content.as_bytes());
        says(&message, expected);
    };
    refuses(
        &good.replace("\"loss_scale_version\": 2", "\"loss_scale_version\": 3"),
        "loss scale record of version 3, but this burn-amp reads versions 1 to 2: the file is from a newer burn-amp",
    );
    refuses(
        &good.replace("65536.0", "65537.0"),
        "65537 is no loss scale; expected a power of two from 2^-126 to 2^127",
    );
    refuses(&good.replace("65536.0", "0.0"), "0 is no loss scale");
    refuses(
        &good.replace("\"scale\"", "\"skale\""),
        "unknown field `skale`",
    );
    refuses(&good[..good.len() / 2], "EOF");
    refuses("", "EOF");

    // The record of a model instead of a loss scale's, and instead of a `LossScaleOptimizer`'s.
    let mpk = DefaultRecorder::new();
    let model: Linear<Plain> = LinearConfig::new(2, 2).init(&here());
    Recorder::<Plain>::record(&mpk, model.into_record(), path.clone()).unwrap();
    let foreign = fs::read(path.with_extension("mpk")).unwrap();
    let message = refused::<LossScaleRecord, _>(&mpk, &path, &foreign);
    says(
        &message,
        "unknown field `weight`, expected one of `loss_scale_version`",
    );

    let message = refused::<RecordOnPlain, _>(&mpk, &path, &foreign);
    says(&message, "this one has the field `weight`");
    says(&message, "load_inner_record");

    // A file truncated at every length.
    Recorder::<Plain>::record(&mpk, record, path.clone()).unwrap();
    let whole = fs::read(path.with_extension("mpk")).unwrap();
    for length in 0..whole.len() {
        refused::<LossScaleRecord, _>(&mpk, &path, &whole[..length]);
    }
    let bin = BinFileRecorder::<FullPrecisionSettings>::new();
    refused::<LossScaleRecord, _>(&bin, &path, &foreign);
}

/// What an optimizer saved cannot always be loaded by another: the error names both, or the method for a plain one.
#[test]
fn a_record_of_another_optimizer_is_refused_by_name() {
    let _policy = enter_config!(computing_in(Compute::F16));
    type Layer = Linear<B>;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("optimizer");
    let model: Layer = LinearConfig::new(2, 2).init(&here());
    let grads = || {
        let x = burn::tensor::Tensor::<B, 2>::ones([1, 2], &here());
        GradientsParams::from_grads(model.forward(x).sum().backward(), &model)
    };
    let adam = AmpOptimizer::new(AdamConfig::new());
    type Inner = AmpAdaptor<AdamConfig, Layer, B>;
    type Whole = LossScaleOptimizer<Inner>;

    let mpk = DefaultRecorder::new();
    let bin = BinFileRecorder::<FullPrecisionSettings>::new();
    let json = PrettyJsonFileRecorder::<FullPrecisionSettings>::new();
    macro_rules! refused {
        ($loads:ty, $optimizer:expr, [$($recorder:ident),+], $words:expr) => {
            $({
                type Loaded = <$loads as Optimizer<Layer, B>>::Record;
                let mut optimizer = $optimizer;
                let _ = optimizer.step(0.1, model.clone(), grads());
                let record = Optimizer::<Layer, B>::to_record(&optimizer);
                Recorder::<B>::record(&$recorder, record, path.clone()).unwrap();
                let loaded = Recorder::<B>::load::<Loaded>(&$recorder, path.clone(), &here());
                let message = loaded.err().expect("the record is refused").to_string();
                for words in $words {
                    says(&message, words);
                }
            })+
        };
    }
    let plain: fn() -> OptimizerAdaptor<burn::optim::Adam, Layer, B> = || AdamConfig::new().init();
    let sgd = || SgdConfig::new().with_momentum(Some(MomentumConfig::new()));
    let plain_sgd = || sgd().init::<B, Layer>();
    let amp_sgd = || AmpOptimizer::new(sgd()).init::<B, Layer>();
    refused!(
        Whole,
        plain(),
        [mpk, bin, json],
        ["optimizer.load_inner_record(record)"]
    );
    refused!(
        Whole,
        amp_sgd(),
        [mpk, bin, json],
        [
            "the record of the optimizer `Sgd`, and",
            "and `Adam` is to load it"
        ]
    );
    // The file of a plain optimizer does not say of which one. In Burn's binary format it does not even say what is what,
    // and Burn panics.
    refused!(
        Inner,
        plain_sgd(),
        [mpk, json],
        ["this is no state of the optimizer `Adam`"]
    );

    // As a record of the plain optimizer it is loaded.
    let record = Optimizer::<Layer, B>::to_record(&plain());
    Recorder::<B>::record(&mpk, record, path.clone()).unwrap();
    let record = mpk.load(path, &here()).unwrap();
    let _ = adam
        .init::<B, Layer>()
        .load_inner_record::<Layer, B>(record);
}

/// The record of a `LossScaleOptimizer` without an inner record.
type RecordOnPlain = burn_amp::optim::LossScaleOptimizerRecord<()>;
