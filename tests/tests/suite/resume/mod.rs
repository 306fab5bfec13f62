//! Law: a run that is killed and resumed ends as an uninterrupted one, bit for bit. Loading a file that is not a
//! checkpoint is an error and leaves the file unchanged.

// The software driver of Vulkan has no BF16.
#[cfg(not(feature = "vulkan"))]
mod checkpoint;
mod files;

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

/// How often a run is killed. On a software driver each process compiles all kernels anew.
const KILLS: usize = if cfg!(feature = "cubecl") { 5 } else { 20 };

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
    while kills < KILLS {
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
