//! Training steps of a model of the zoo on CUDA under Fusion: what a step asks of the driver, with Burn 0.22.
//!
//! The command line and the output are those of `dry` in `examples/lab`, so that `cargo xtask cuda dry --program` counts them
//! beside those of Burn 0.21.

#[path = "../../../examples/lab/src/choice.rs"]
#[allow(dead_code, reason = "the lab has more programs")]
mod choice;

use anyhow::{Context, Result, ensure};
use burn::{module::Module, tensor::Device};
use burn_amp::config::{Compute, Config, Preset};
use choice::Choice;
use clap::{Parser, ValueEnum};
use cudarc::driver::sys::{CUresult, cuProfilerStart, cuProfilerStop};
use zoo::{Draw, Entry, LEARNING_RATE, Net, Size, Visitor, ZooModel, adamw};

/// The seed of the weights and of the batch.
const SEED: u64 = 0;

/// The number of marked steps.
const MARKED: usize = 2;

/// Takes training steps on CUDA and marks two of them for a profiler.
#[derive(Parser)]
struct Args {
    /// The model, its numbers replaced if you like: `bert:seq_len=512,batch_size=16`.
    #[arg(value_name = "NAME[:FIELD=NUMBER,..]")]
    model: Choice,

    /// The precision to train in.
    #[arg(long, value_enum, default_value = "f32")]
    precision: Precision,

    /// Trains under Fusion, as this program always does.
    #[arg(long)]
    fusion: bool,

    /// The size of the model: `full` as published, `tiny` to train on a CPU in seconds.
    #[arg(long, default_value_t = Size::Full)]
    size: Size,

    /// The number of steps before the marked ones.
    #[arg(long, default_value_t = 2)]
    warmup: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Precision {
    /// A policy that lowers nothing, which has the bits of plain Burn
    F32,
    /// In BF16
    Bf16,
    /// In F16, with a dynamic loss scale
    F16,
}

impl Precision {
    fn config(self) -> Config {
        let (preset, compute) = match self {
            Precision::F32 => (Preset::O0, Compute::F32),
            Precision::Bf16 => (Preset::O1, Compute::Bf16),
            Precision::F16 => (Preset::O1, Compute::F16),
        };
        Config {
            preset,
            compute,
            ..Config::default()
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.fusion, "this program trains under Fusion: --fusion");
    let device = Device::cuda(0).autodiff();
    burn_amp::configure(&device, args.precision.config())?;
    let parameters = args.model.visit(
        args.size,
        Train {
            args: &args,
            device,
        },
    )?;
    let outcome = serde_json::json!({ "parameters": parameters, "peak_bytes": null });
    println!("{outcome}");
    Ok(())
}

/// A visitor that trains a model and returns the number of its parameters.
struct Train<'a> {
    args: &'a Args,
    device: Device,
}

impl Visitor for Train<'_> {
    type Output = Result<usize>;

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Result<usize> {
        let Self { args, device } = self;
        device.seed(SEED);
        let draw = Draw::train(args.model.batch_size(args.size), SEED);
        let batch = model.batch(draw, &device);
        let net = M::TrainNet::init(&model, &device);
        let parameters = net.num_params(); // draws the parameters, which are lazy
        let mut net = Some(net);
        let mut optimizer = adamw().init();
        let mut losses = Vec::new(); // as a program that logs them keeps them
        let mut step = || -> Result<()> {
            let before = net.take().context("a step failed before")?;
            let (after, loss) = M::step(before, &batch, &mut optimizer, LEARNING_RATE);
            net = Some(after);
            losses.push(loss);
            Ok(device.sync()?)
        };

        for _ in 0..args.warmup {
            step()?;
        }
        for _ in 0..MARKED {
            // SAFETY: both have no preconditions; the driver is there, since it has computed.
            accepted(unsafe { cuProfilerStart() })?;
            step()?;
            accepted(unsafe { cuProfilerStop() })?;
        }
        Ok(parameters)
    }
}

fn accepted(result: CUresult) -> Result<()> {
    result
        .result()
        .context("the driver does not mark a step for profilers")
}
