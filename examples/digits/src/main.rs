//! Trains a small convolutional net on the UCI optical digits in F32, BF16 and F16, and compares the runs.
//!
//! ```text
//! cargo run --release -p digits
//! ```
//!
//! [`data`], [`model`] and [`training`] are plain Burn and do not mention precision. It is chosen in [`train`], by the
//! backend type that they are called with.
//!
//! * [`precision`]: the precisions, and what burn-amp reports about a training run
//! * [`each_step`], [`loss_log`], [`progress`]: plugged into Burn's learner
//! * [`report`], [`plot`]: the runs side by side

mod data;
mod each_step;
mod loss_log;
mod model;
mod plot;
mod precision;
mod progress;
mod report;
mod training;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use burn::{
    backend::{Autodiff, Flex},
    tensor::backend::AutodiffBackend,
    train::{ApplicationLoggerInstaller, FileApplicationLoggerInstaller},
};
use burn_amp::{Amp, AmpBackend, config::SetupError, extend::Amped};
use clap::{Parser, ValueEnum};

use crate::{
    precision::{Bf16, F16, Precision, Watch},
    report::{Run, Table},
    training::TrainingConfig,
};

/// Trains a small convolutional net on handwritten digits in several precisions and compares the runs.
#[derive(Parser)]
struct Args {
    /// The backend to compute on: `flex` is the CPU; the others are built with the feature of their name, `cargo run
    /// --release -p digits --features cuda -- --backend cuda`.
    #[arg(long, value_enum, default_value = "flex")]
    backend: BackendChoice,

    /// The precision to train in; `all` trains in each that the backend offers. bf16 and f16 are mixed precision.
    #[arg(long, value_enum, default_value = "all")]
    precision: PrecisionChoice,

    /// The passes over the 1,438 training digits.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    epochs: u16,

    /// The seed of the initial weights, the order of the digits and the dropout.
    #[arg(long, default_value_t = 42)]
    seed: u64,

    /// The folder for curves, checkpoints and the log.
    #[arg(long, value_name = "DIR", default_value = "target/digits")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum BackendChoice {
    Flex,
    Vulkan,
    Cuda,
}

#[derive(Clone, Copy, ValueEnum)]
enum PrecisionChoice {
    #[value(aliases = ["fp32", "float32"])]
    F32,
    #[value(alias = "bfloat16")]
    Bf16,
    #[value(aliases = ["half", "fp16", "float16"])]
    F16,
    /// All precisions that the backend offers.
    All,
}

fn main() -> Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    FileApplicationLoggerInstaller::new(args.out.join("digits.log"))
        .install()
        .map_err(anyhow::Error::msg)?;

    match args.backend {
        BackendChoice::Flex => compare::<Flex>(&args),
        #[cfg(feature = "vulkan")]
        BackendChoice::Vulkan => compare::<burn::backend::Vulkan>(&args),
        #[cfg(feature = "cuda")]
        BackendChoice::Cuda => compare::<burn::backend::Cuda>(&args),
        #[cfg(not(feature = "vulkan"))]
        BackendChoice::Vulkan => Err(not_built("vulkan")),
        #[cfg(not(feature = "cuda"))]
        BackendChoice::Cuda => Err(not_built("cuda")),
    }
}

#[cfg(not(all(feature = "vulkan", feature = "cuda")))]
fn not_built(backend: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "this program was built without `{backend}`; build it with\n  \
         cargo run --release -p digits --features {backend} -- --backend {backend}"
    )
}

fn compare<B: AmpBackend>(args: &Args) -> Result<()> {
    let device = B::Device::default();
    let config = TrainingConfig::new(args.epochs.into(), args.seed);

    let mut precisions = Vec::new();
    for precision in args.precision.precisions() {
        match precision.init::<B>(&device) {
            Ok(()) => precisions.push(*precision),
            Err(error @ SetupError::UnsupportedDtype { .. }) if args.precision.is_all() => {
                println!("{precision:<4}  left out: {error}");
            }
            Err(error) => return Err(error.into()),
        }
    }
    let runs: Vec<Run> = precisions
        .into_iter()
        .map(|precision| {
            let directory = args.out.join(precision.name());
            train::<B>(precision, &config, &device, &directory)
        })
        .collect();

    let [picture, curves] = ["curves.svg", "curves.csv"].map(|name| args.out.join(name));
    plot::draw(
        &picture,
        &format!("Handwritten digits on {}", B::name(&device)),
        &runs,
    )
    .with_context(|| picture.display().to_string())?;
    report::write_csv(&curves, &runs).with_context(|| curves.display().to_string())?;

    println!("\n{}", Table(&runs));
    println!(
        "final loss: mean training loss of the last epoch; time: training, with the test after every epoch"
    );
    println!("curves: {}, {}", picture.display(), curves.display());
    Ok(())
}

/// The only place where the precision matters.
fn train<B: AmpBackend>(
    precision: Precision,
    config: &TrainingConfig,
    device: &B::Device,
    directory: &Path,
) -> Run {
    match precision {
        Precision::F32 => Run {
            precision,
            trained: training::run::<Autodiff<B>>(
                config,
                device,
                precision.name(),
                directory,
                || (),
            ),
            amp: None,
        },
        Precision::Bf16 => {
            train_mixed::<burn_amp::Autodiff<Amp<B, Bf16>>>(precision, config, device, directory)
        }
        Precision::F16 => {
            train_mixed::<burn_amp::Autodiff<Amp<B, F16>>>(precision, config, device, directory)
        }
    }
}

fn train_mixed<A: Amped + AutodiffBackend>(
    precision: Precision,
    config: &TrainingConfig,
    device: &A::Device,
    directory: &Path,
) -> Run {
    let watch = Watch::start::<A>(device);
    let on_step = {
        let watch = watch.clone();
        move || watch.read()
    };
    Run {
        precision,
        trained: training::run::<A>(config, device, precision.name(), directory, on_step),
        amp: Some(watch.finish()),
    }
}

impl PrecisionChoice {
    fn precisions(self) -> &'static [Precision] {
        match self {
            Self::F32 => &[Precision::F32],
            Self::Bf16 => &[Precision::Bf16],
            Self::F16 => &[Precision::F16],
            Self::All => &Precision::ALL,
        }
    }

    fn is_all(self) -> bool {
        matches!(self, Self::All)
    }
}
