//! The precision experiment: trains a model of the zoo in F32, BF16 and F16 from the same seed, and judges the result.
//!
//! ```text
//! cargo run --release -p lab --bin compare -- --model resnet18
//! cargo run --release -p lab --bin compare --features cuda,fusion -- --model gpt:batch_size=16 --backend cuda
//! ```
//!
//! F32 is plain Burn. The others are burn-amp under `amp.toml` and the `BURN_AMP_*` variables, except for the compute
//! dtype, the preset, and what else [`lab::precision`] says. Every run draws the same weights and the same batches. F32
//! is trained with more than one seed: how far those runs end apart decides whether another precision is "as good".
//!
//! The folder `--out` receives a CSV file for each run ([`run`]), `summary.json` and `summary.md` with the runs side by
//! side ([`summary`]) and a [`verdict`], and `curves.svg` ([`plot`]).
//!
//! * An epoch is `--steps-per-epoch` fresh batches, which the zoo draws. After it the model is validated on items that
//!   no training sees, in the run's own precision.
//! * Time is that of a step, from the batch on the device to the sync after the update: the median over all steps but
//!   the first three, in which kernels are tuned and memory is measured.
//! * Peak memory is the most that tensors hold in the second and third step, above what was in use before the run.
//! * A run that fails or becomes non-finite is reported with the first place where that was seen ([`non_finite`]), and
//!   the others go on.
//!
//! There is no precision `tf32`, because Burn 0.21.0 leaves no choice. On CUDA an F32 matmul or convolution is tuned
//! among kernels on CUDA cores, in full F32, and kernels on tensor cores, which round their operands to TF32; the
//! fastest one wins, for each shape anew (`adjust_dtypes` in cubek-matmul 0.2.0).

mod cli;
mod experiment;
mod non_finite;
mod plot;
mod run;
mod summary;
mod training;
mod verdict;

use anyhow::Result;
use burn_amp::AmpBackend;
use clap::Parser;
use lab::{cli::OnBackend, machine::Machine};

use crate::cli::Args;

/// Counts the heap, where Flex has its tensors. With the backends of a GPU it would slow down the host.
#[cfg(not(feature = "cubecl"))]
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;

fn main() -> Result<()> {
    let args = Args::parse();
    args.backend.run(&args)
}

impl OnBackend for &Args {
    fn call<P: AmpBackend>(self, machine: &Machine) -> Result<()> {
        experiment::run::<P>(self, machine)
    }
}
