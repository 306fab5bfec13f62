//! Training steps of a model of the zoo on CUDA, without a word about time: what a step asks of the driver.
//!
//! ```text
//! cargo run -p lab --bin dry --features cuda -- gpt --precision bf16 --fusion
//! ```
//!
//! `cargo xtask cuda dry` runs it on a driver without a device, which logs what happens between `cuProfilerStart` and
//! `cuProfilerStop`; under a profiler on a GPU the same marks bound the step. See `book/src/cuda.md`.
//!
//! 1. `--warmup` steps, in which CubeCL compiles and tunes kernels and its pools find their sizes;
//! 2. two marked steps, each of which ends with a sync of the device;
//! 3. another step, during which a second thread samples the bytes that tensors hold;
//! 4. with `--control`, further steps for a profiler of the host, which `cargo xtask cuda host` controls.
//!
//! The output is one line of JSON, [`Outcome`].
//!
//! * [`precision`]: plain Burn and the policies; [`training`]: the steps; [`marks`]: the marks; [`args`]: the command line

mod args;
mod marks;
mod precision;
mod training;

use anyhow::Result;
use burn_cubecl::{CubeBackend, cubecl::cuda::CudaRuntime};
use clap::Parser;
use lab::{choice, machine::cube};
use serde::Serialize;

use crate::args::Args;

/// Burn's CUDA backend without Fusion, and under it.
type Unfused = CubeBackend<CudaRuntime, f32, i32, u8>;
type Fused = burn::backend::Cuda;

/// What the program knows by itself; the rest is in the driver's log.
#[derive(Serialize)]
pub struct Outcome {
    parameters: usize,
    /// The most bytes that tensors held in one step: sampled, so a peak that lasts for only a kernel can be missed.
    peak_bytes: Option<u64>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let machine = cube::cuda()?;
    let outcome = match args.fusion {
        true => precision::run::<Fused>(&args, &machine)?,
        false => precision::run::<Unfused>(&args, &machine)?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
