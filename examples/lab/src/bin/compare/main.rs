//! The precision experiment: trains a model of the zoo with one seed in F32, BF16 and F16, and says what came of it.
//!
//! ```text
//! cargo run --release -p compare -- --model resnet18
//! cargo run --release -p compare --features cuda,fusion -- --model gpt --backend cuda --epochs 10 --seeds 3
//! ```
//!
//! F32 is plain Burn. BF16 and F16 are burn-amp under `amp.toml` and the `BURN_AMP_*` variables, but for the compute
//! dtype and the preset, which is `o1`. Every run draws the same weights and the same batches. F32 is trained with more
//! than one seed: how far those runs end apart is the measure by which another precision is "as good".
//!
//! In the folder `--out`:
//!
//! | file | what |
//! |---|---|
//! | `<precision>-seed<seed>.csv` | a run, step by step ([`steps_csv`]) |
//! | `summary.json`, `summary.md` | the runs side by side, and the verdict ([`summary`], [`verdict`]) |
//! | `curves.svg` | training loss, validation loss, and its distance from F32's ([`plot`]) |
//!
//! What the numbers are:
//!
//! * An epoch is `--steps-per-epoch` fresh batches: the zoo draws them, they do not run out. After it the model is
//!   validated on items that no training sees, in the run's own precision.
//! * Time is that of a step, from the batch on the device to the sync after the update: the median over all steps but
//!   the first three, in which kernels are tuned and memory is sampled. `time per epoch` is that times the steps.
//! * Peak memory is the most that tensors hold in the second and third step, above what the process held before the
//!   run: counted on the heap for Flex, sampled on a device ([`memory`]).
//! * A run that goes non-finite stops, and is reported with the place where that was first seen ([`non_finite`]). One
//!   that panics is reported too, and the others go on.
//!
//! There is no precision `tf32`, because Burn 0.21.0 leaves no choice. On CUDA an F32 matmul or convolution is autotuned
//! among kernels on CUDA cores, in full F32, and kernels on tensor cores, which round their operands to TF32; the
//! fastest one wins, for each shape anew (`adjust_dtypes` in cubek-matmul 0.2.0). So F32 on CUDA is a mixture, which the
//! verdict says. `DType::Flex32` is none either: its tensor cores run in F16.
//!
//! * [`cli`], [`plan`]: what is asked for
//! * [`experiment`]: one run after the other
//! * [`precision`], [`training`], [`batches`]: one run; [`run`]: what is recorded of it
//! * [`layers`], [`half_batch`], [`machine`]: what may keep a precision from being faster; [`mod@verdict`] says it

mod batches;
mod cli;
mod experiment;
mod half_batch;
mod layers;
mod layout;
mod machine;
mod memory;
mod non_finite;
mod plan;
mod plot;
mod precision;
mod run;
mod statistics;
mod steps_csv;
mod summary;
mod training;
mod verdict;

use anyhow::Result;
use burn::backend::Flex;
use clap::Parser;

use crate::{
    cli::{Args, BackendChoice},
    machine::Machine,
};

fn main() -> Result<()> {
    let args = Args::parse();
    match args.backend {
        BackendChoice::Flex => experiment::run::<Flex>(&args, &Machine::flex()),
        #[cfg(feature = "vulkan")]
        BackendChoice::Vulkan => {
            let machine = bench_machine::cube::vulkan().into();
            experiment::run::<bench_machine::cube::Vulkan>(&args, &machine)
        }
        #[cfg(feature = "cuda")]
        BackendChoice::Cuda => {
            // CubeCL may multiply F32 matrices in TF32.
            let machine = Machine {
                rounds_f32: true,
                ..bench_machine::cube::cuda()?.into()
            };
            experiment::run::<bench_machine::cube::Cuda>(&args, &machine)
        }
    }
    .map(drop)
}
