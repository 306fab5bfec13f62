//! `cargo xtask cuda`: what burn-amp does on CUDA, checked without a GPU. `book/src/cuda.md` says how, and what it found.
//!
//! * [`dry`]: `dry`, training steps of the zoo on a driver without a device: launches, waits, bytes
//! * [`plan`]: the runs; [`stand_in`]: the driver
//! * [`log`], [`kernel`], [`traffic`], [`live`], [`class`]: from the driver's log to [`step`], a step in numbers
//! * [`compile`]: `compile`, the kernels of these steps in the hands of the true NVRTC; [`toolkit`]: where it comes from
//! * [`cache`]: `cache`, the same kernels in the form in which CubeCL finds them on a GPU machine
//! * [`emulate`]: `emulate`, the suite with kernels that run on the CPU; [`compiled`]: these kernels
//! * [`host`]: `host`, the CPU time of these steps
//! * [`table`]: the steps in the repository; [`lines`]: how tables are kept; [`peer`]: PyTorch's; [`model`]: an estimate of times; [`report`]: all for people

mod cache;
mod class;
mod compile;
mod compiled;
mod dry;
mod emulate;
mod host;
mod kernel;
mod lines;
mod live;
mod log;
mod model;
mod peer;
mod plan;
mod report;
mod stand_in;
mod step;
mod table;
mod toolkit;
mod traffic;

pub use cache::{Options as CacheOptions, kernels_are_for, run as fill_cache};
pub use plan::{Choice, Precision};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::generated::{self, Generated};

/// The options of `cargo xtask cuda`.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Takes training steps of the zoo on a driver without a device, and compares them with the table in the repository
    Dry(dry::Options),
    /// Compiles the kernels of the last dry runs with NVRTC, for sm_80 and sm_90: errors, registers, spills
    Compile(compile::Options),
    /// Compiles what training steps launch, and what tuning chooses from, into a folder that a GPU machine can use
    Cache(cache::Options),
    /// Runs the suite with the kernels that CubeCL writes for CUDA, compiled for the CPU
    Emulate(emulate::Options),
    /// Samples the CPU time of the threads of training steps, with a driver whose device takes no time
    Host(host::Options),
    /// Writes book/src/cuda-steps.md from the table of steps and the figures of a device
    Page(generated::Options),
}

/// Runs a command.
pub fn run(options: Options) -> Result<()> {
    match options.command {
        Command::Dry(options) => dry::run(&options),
        Command::Compile(options) => compile::run(&options),
        Command::Cache(options) => cache::run(&options),
        Command::Emulate(options) => emulate::run(&options),
        Command::Host(options) => host::run(&options),
        Command::Page(options) => PAGE.run(&options),
    }
}

/// The quick dry runs, compared with the table, and the page of the book: a step of `cargo xtask test --rest`.
pub fn check_steps() -> Result<()> {
    PAGE.check()?;
    dry::run(&dry::Options {
        choice: plan::Choice {
            quick: true,
            ..plan::Choice::default()
        },
        ..dry::Options::default()
    })
}

/// Whether there is a C++ compiler for kernels.
pub fn can_emulate() -> Result<()> {
    emulate::has_compiler()
}

/// The tests of a part of the suite, with kernels that run on the CPU: a step of `cargo xtask test`.
pub fn check_emulation(part: &str) -> Result<()> {
    emulate::run(&emulate::Options::of(part))
}

/// Whether the true NVRTC is there or can be downloaded.
pub fn has_compiler() -> Result<()> {
    toolkit::Toolkit::get().map(drop)
}

/// Compiles the kernels of the quick dry runs: a step of `cargo xtask test --rest`.
pub fn check_kernels() -> Result<()> {
    compile::run(&compile::Options {
        quick: true,
        ours: true,
    })
}

/// The page of the book with all steps at full size.
const PAGE: generated::Command = generated::Command {
    name: "cuda page",
    files,
};

fn files() -> Result<Vec<Generated>> {
    let steps: Vec<_> = table::Table::read()?
        .0
        .into_iter()
        .filter(|step| step.run.size == "full")
        .collect();
    Ok(vec![Generated {
        path: "book/src/cuda-steps.md",
        text: format!(
            "{HEAD}\n{}\n{BESIDE}\n{}\n{HOST}\n{}",
            report::steps(&steps)?,
            report::beside_pytorch(&steps, &peer::read()?)?,
            report::hosts(&host::read()?, &steps)?
        ),
    }])
}

const HEAD: &str = "\
<!-- Written by `cargo xtask cuda page`; do not edit. -->

# Training steps on CUDA, without a GPU

What one training step of each model asks of the CUDA driver, counted by `cargo xtask cuda dry`; [cuda.md](cuda.md)
explains the columns. `f32` is plain Burn with its AdamW, the others are Amp with `AmpOptimizer`.
";

const HOST: &str = "\
## The host

CPU time of a step in milliseconds, sampled by `cargo xtask cuda host` where no device computes, in a fully optimized build. A step passes through three
threads: the program's with autodiff and `Amp`, Fusion's, and CubeCL's, which launches; a thread that polls for another does not count. They work side by side, so the
host keeps a device busy if its busiest thread takes less time than the device.
";

const BESIDE: &str = "\
## Beside PyTorch

The same models, batches and updates in PyTorch 2.15, counted by `examples/lab/pytorch/traffic.py` on tensors without values: each op
is taken for one kernel that reads its operands once, so PyTorch has at least so many launches and bytes. TF32 operands are F32 in
memory. Recurrent layers are cuDNN's, whose bytes are not known. The milliseconds are a model's: for both sides the same products at the same
rate, two microseconds for each launch, and 80 % of the bandwidth for all other bytes. They tell what the counts are worth, and not which
kernels are faster.
";
