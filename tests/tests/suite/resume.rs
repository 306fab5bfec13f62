//! Law: a run that is killed and resumed ends as an uninterrupted one, bit for bit. Loading a file that is not a
//! checkpoint is an error and leaves the file unchanged.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use burn::record::{
    CompactRecorder, DefaultRecorder, FileRecorder, PrettyJsonFileRecorder, RecorderError,
};
use burn_amp::{optim::Moments, scaling::LossScaleRecord};
use burn_amp_tests::prelude::*;

/// F16 with a loss scale that grows every 4 finite steps, so that gradients overflow now and then.
fn overflowing() -> Config {
    in_f16(|it| {
        it.loss_scale.rule.init = 65536.0;
        it.loss_scale.rule.growth_interval = 4;
        it.loss_scale.rule.max = 2f32.powi(30);
    })
}

policy!(InTheChild, overflowing());

type B = AmpAutodiff;
type Model = (Linear<B>, Linear<B>);
type Adaptor = OptimizerAdaptor<MasterWeights<burn::optim::Adam>, Model, B>;
/// Steps all parameters together, with moments that are rounded stochastically.
type List = AmpAdaptor<AdamConfig, Model, B>;

const STEPS: usize = 100;

/// The end of a run: the records of model, optimizer and loss scale. The optimizer's is a JSON value, because it has
/// maps without an order.
#[derive(PartialEq)]
struct End {
    model: Vec<u8>,
    optimizer: serde_json::Value,
    loss_scale: LossScaleRecord,
}

/// Saves the checkpoint of a step. Its directory is written under another name and then renamed, so that a kill leaves
/// the earlier checkpoints intact.
fn checkpoint<O: Optimizer<Model, B>>(directory: &Path, step: usize, model: &Model, optimizer: &O) {
    let _policy = enter::<InTheChild>();
    let unfinished = directory.join("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    let recorder = DefaultRecorder::new();
    Recorder::<B>::record(
        &recorder,
        model.clone().into_record(),
        unfinished.join("model"),
    )
    .unwrap();
    Recorder::<B>::record(
        &recorder,
        optimizer.to_record(),
        unfinished.join("optimizer"),
    )
    .unwrap();
    fs::rename(unfinished, directory.join(format!("{step:04}"))).unwrap();
}

/// The step and the path of the last finished checkpoint.
fn last(directory: &Path) -> Option<(usize, PathBuf)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .max()
}

/// The optimizers that a child trains with, by the name of their moments.
const FORMATS: [(&str, Moments); 2] = [("bf16", Moments::Bf16), ("bits8", Moments::Bits8)];

/// Trains to the end, with the optimizer and the width that the directory names.
fn train_as_named(directory: &Path) {
    let name = fs::read_to_string(directory.join("moments")).unwrap();
    match FORMATS.iter().find(|(other, _)| *other == name) {
        Some((_, moments)) => {
            let adam = AmpOptimizer::new(AdamConfig::new()).with_moments(*moments);
            train::<LossScaleOptimizer<List>>(directory, WIDE, adam.with_seed(3).init());
        }
        None => {
            let adam = MasterWeights::new(AdamConfig::new()).with_masters(Masters::F32);
            let optimizer = LossScaleOptimizer::<Adaptor>::new(adam.init());
            train(directory, NARROW, optimizer);
        }
    }
}

/// The width of the model.
const NARROW: usize = 16;
/// The width with which its first matrix has enough elements for moments in fewer bytes.
const WIDE: usize = 512;

fn layers<B: burn::tensor::backend::Backend>(
    width: usize,
    device: &B::Device,
) -> (Linear<B>, Linear<B>) {
    (
        LinearConfig::new(8, width).init(device),
        LinearConfig::new(width, 4).init(device),
    )
}

/// Trains to the end, from the last checkpoint in a directory if there is one.
fn train<O: Optimizer<Model, B>>(directory: &Path, width: usize, mut optimizer: O) {
    let _policy = enter::<InTheChild>();
    let record = fs::read(directory.join("start")).unwrap();
    let model = load::<B, _>(layers(width, &here()), record);
    let mut model = cast_params_to(model, Preset::O2, Precision::F16);
    let mut first = 0;
    if let Some((step, path)) = last(directory) {
        let recorder = DefaultRecorder::new();
        let load = |name: &str| path.join(name);
        model = model.load_record(Recorder::<B>::load(&recorder, load("model"), &here()).unwrap());
        optimizer = optimizer
            .load_record(Recorder::<B>::load(&recorder, load("optimizer"), &here()).unwrap());
        first = step + 1;
    }
    for step in first..STEPS {
        let x = noise::<B>(64 + STEPS, &here())
            .slice(step..step + 64)
            .reshape([8, 8]);
        let y = model.1.forward(model.0.forward(x.clone()).tanh());
        let loss = (y - x.slice([0..8, 0..4])).square().mean();
        model = stepped(&mut optimizer, 1e-2, loss, model);
        checkpoint(directory, step, &model, &optimizer);
    }
}

/// The records of a finished run, from its last checkpoint.
fn end<I: Optimizer<Model, B>>(directory: &Path) -> End {
    let _policy = enter::<InTheChild>();
    let (step, path) = last(directory).unwrap();
    assert_eq!(step, STEPS - 1);
    let recorder = DefaultRecorder::new();
    let record: <LossScaleOptimizer<I> as Optimizer<Model, B>>::Record =
        Recorder::<B>::load(&recorder, path.join("optimizer"), &here()).unwrap();
    let device = burn::tensor::Device::<B>::default();
    End {
        model: fs::read(path.join("model.mpk")).unwrap(),
        loss_scale: record.loss_scale(&device).unwrap(),
        optimizer: serde_json::to_value(Record::<B>::into_item::<FullPrecisionSettings>(record))
            .unwrap(),
    }
}

/// The variable that names the directory in which the child process, this same test binary, trains.
const DIRECTORY: &str = "BURN_AMP_TESTS_RESUME";

#[test]
#[ignore = "the child process of `resumes_exactly`"]
fn child() {
    train_as_named(Path::new(&std::env::var(DIRECTORY).unwrap()));
}

fn start_child(directory: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["resume::child", "--exact", "--ignored"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_run_resumes_exactly() {
    resumes_exactly::<Adaptor>("f32", NARROW);
}

/// The numbers by which moments are rounded do not depend on where a run was stopped.
// Each of its 52 processes would compile all kernels anew on a software driver, for minutes.
#[cfg(not(feature = "cubecl"))]
#[test]
fn a_killed_run_with_stochastic_moments_resumes_exactly() {
    for (name, _) in FORMATS {
        resumes_exactly::<List>(name, WIDE);
    }
}

fn resumes_exactly<I: Optimizer<Model, B>>(moments: &str, width: usize) {
    let root = tempfile::tempdir().unwrap();
    let record = seeded::<PlainAutodiff, _>(|device| layers::<PlainAutodiff>(width, device));
    let directory = |name: &str| {
        let directory = root.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("start"), &record).unwrap();
        fs::write(directory.join("moments"), moments).unwrap();
        directory
    };

    let whole = directory("whole");
    assert!(start_child(&whole).wait().unwrap().success());
    let expected = end::<I>(&whole);
    let skipped = expected.loss_scale.skipped_steps();
    assert!(
        (3..STEPS as u64 / 2).contains(&skipped),
        "{skipped} steps skipped"
    );

    let (mut kills, mut runs, mut hash) = (0, 0, 1u32);
    while kills < 20 {
        let killed = directory(&format!("killed-{runs}"));
        runs += 1;
        loop {
            let mut child = start_child(&killed);
            // Waits until there are `until` checkpoints, and then for a varying time.
            hash = hash.wrapping_mul(1664525).wrapping_add(1013904223);
            let until = last(&killed).map_or(0, |(step, _)| step + 1) + (hash >> 16) as usize % 24;
            let deadline = Instant::now() + Duration::from_secs(300);
            let reached = || last(&killed).is_some_and(|(step, _)| step >= until);
            while !reached() && child.try_wait().unwrap().is_none() {
                assert!(Instant::now() < deadline, "the child makes no progress");
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(Duration::from_micros((hash >> 8) as u64 % 3000));
            match child.try_wait().unwrap() {
                Some(status) => {
                    assert!(status.success());
                    break;
                }
                None => {
                    child.kill().unwrap(); // SIGKILL
                    child.wait().unwrap();
                    kills += 1;
                }
            }
        }
        assert!(
            end::<I>(&killed) == expected,
            "run {runs} after {kills} kills"
        );
    }
    println!("{kills} kills in {runs} runs, {skipped} of {STEPS} steps skipped");
}

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
    let says = |content: &str, expected: &str| {
        let message = refused::<LossScaleRecord, _>(&json, &path, content.as_bytes());
        says(&message, expected);
    };
    says(
        &good.replace("\"loss_scale_version\": 2", "\"loss_scale_version\": 3"),
        "loss scale record of version 3, but this burn-amp reads versions 1 to 2: the file is from a newer burn-amp",
    );
    says(
        &good.replace("65536.0", "65537.0"),
        "65537 is no loss scale; expected a power of two from 2^-126 to 2^127",
    );
    says(&good.replace("65536.0", "0.0"), "0 is no loss scale");
    says(
        &good.replace("\"scale\"", "\"skale\""),
        "unknown field `skale`",
    );
    says(&good[..good.len() / 2], "EOF");
    says("", "EOF");

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

    macro_rules! refused_by {
        ($recorder:expr, $optimizer:expr) => {
            refused_by!($recorder, $optimizer, Whole)
        };
        ($recorder:expr, $optimizer:expr, $loads:ty) => {{
            type Loaded = <$loads as Optimizer<Layer, B>>::Record;
            let mut optimizer = $optimizer;
            let _ = optimizer.step(0.1, model.clone(), grads());
            let record = Optimizer::<Layer, B>::to_record(&optimizer);
            Recorder::<B>::record(&$recorder, record, path.clone()).unwrap();
            match Recorder::<B>::load::<Loaded>(&$recorder, path.clone(), &here()) {
                Ok(_) => panic!("the record was loaded"),
                Err(error) => error.to_string(),
            }
        }};
    }
    let plain: fn() -> OptimizerAdaptor<burn::optim::Adam, Layer, B> = || AdamConfig::new().init();
    let momentum = burn::optim::momentum::MomentumConfig::new();
    let sgd = burn::optim::SgdConfig::new().with_momentum(Some(momentum));
    let plain_sgd = || sgd.init::<B, Layer>();
    let sgd = AmpOptimizer::new(sgd.clone());
    let sgd = || sgd.init::<B, Layer>();
    let messages = [
        refused_by!(DefaultRecorder::new(), plain()),
        refused_by!(BinFileRecorder::<FullPrecisionSettings>::new(), plain()),
        refused_by!(
            PrettyJsonFileRecorder::<FullPrecisionSettings>::new(),
            plain()
        ),
    ];
    for message in messages {
        says(&message, "optimizer.load_inner_record(record)");
    }
    let messages = [
        refused_by!(DefaultRecorder::new(), sgd()),
        refused_by!(BinFileRecorder::<FullPrecisionSettings>::new(), sgd()),
        refused_by!(
            PrettyJsonFileRecorder::<FullPrecisionSettings>::new(),
            sgd()
        ),
    ];
    for message in messages {
        says(&message, "the record of the optimizer `Sgd`, and");
        says(&message, "and `Adam` is to load it");
    }
    // The file of a plain optimizer does not say of which one. In Burn's binary format it does not even say what is what,
    // and Burn panics.
    let messages = [
        refused_by!(DefaultRecorder::new(), plain_sgd(), Inner),
        refused_by!(
            PrettyJsonFileRecorder::<FullPrecisionSettings>::new(),
            plain_sgd(),
            Inner
        ),
    ];
    for message in messages {
        says(&message, "this is no state of the optimizer `Adam`");
    }

    // As a record of the plain optimizer it is loaded.
    let record = Optimizer::<Layer, B>::to_record(&plain());
    Recorder::<B>::record(&DefaultRecorder::new(), record, path.clone()).unwrap();
    let record = DefaultRecorder::new().load(path, &here()).unwrap();
    let _ = adam
        .init::<B, Layer>()
        .load_inner_record::<Layer, B>(record);
}

/// The record of a `LossScaleOptimizer` without an inner record.
type RecordOnPlain = burn_amp::optim::LossScaleOptimizerRecord<()>;
