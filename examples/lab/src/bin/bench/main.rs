//! Measures training throughput and peak memory of the zoo's models: models x batch sizes x precisions.
//!
//! ```text
//! cargo run --release -p bench -- --models mlp resnet18 --size tiny --out ours.jsonl
//! cargo run --release -p bench --features cuda,fusion -- --backend cuda \
//!     --models mlp-large resnet50 bert bert:batch_size=16,seq_len=512 --budget-seconds 240 --out ours.jsonl
//! cargo xtask bench-table ours.jsonl pytorch.jsonl
//! ```
//!
//! The baseline is the same model, batch and optimizer on plain Burn in F32; `bench/pytorch` measures the same in
//! PyTorch and tells what every number means. A step is forward, loss, backward, AdamW and a sync of the device, over
//! one fixed synthetic batch that lies on the device. The sync is inside the timed region: without it the time of
//! queueing the kernels would be measured. `docs/gpu.md` tells how both sides run on a GPU machine without Rust.
//!
//! | differs from PyTorch's | how |
//! |---|---|
//! | `f32`, `amp-*` | the policies of [`precision`], whatever `amp.toml` says |
//! | `o2` | parameters stored low, with F32 master weights; PyTorch's autocast has no such thing |
//! | `amp-f16-unscaled` | no loss scale and no check of the gradients: what the others cost more is the scaler's |
//! | `amp-decomposed` | softmax, layer norm and gelu as Burn composes them: what it costs more is what the kernels are worth |
//! | `peak_memory_bytes` | sampled over two more steps after the timed ones, for CubeCL keeps no peak; `null` on Flex |
//!
//! * [`cli`], [`choice`], [`plan`]: what is to be measured
//! * [`session`]: one run after the other, within the [`budget`]; a run that panics costs no other
//! * [`precision`], [`recipe`]: how a model is trained in each precision
//! * [`measure`], [`training`]: one run, on a [`bench_machine`]
//! * [`bench_entries`]: its numbers as a line of JSON, and the table that sets them beside PyTorch's
//! * [`kernels`]: the kernels by themselves, `bench kernels`
//! * [`summary`]: the runs of a session, [`list`]: what there is

mod budget;
mod choice;
mod cli;
mod kernels;
mod list;
mod measure;
mod percentile;
mod plan;
mod precision;
mod progress;
mod recipe;
mod session;
mod summary;
mod training;

use anyhow::Result;
use bench_entries::{Comparison, read_all};
use bench_machine::Machine;
use burn::backend::Flex;
use clap::Parser;

use crate::{
    cli::{Args, BackendChoice, Command, KernelArgs, RunArgs},
    kernels::{Measurement, Table},
    list::List,
    summary::Summary,
};

fn main() -> Result<()> {
    let Args { command, run } = Args::parse();
    match command {
        Some(Command::Table { files }) => {
            print!("{}", Comparison(&read_all(&files)?));
            Ok(())
        }
        Some(Command::Kernels(args)) => bench_kernels(&args),
        None if run.list => {
            print!("{List}");
            Ok(())
        }
        None => bench(&run),
    }
}

fn bench(args: &RunArgs) -> Result<()> {
    let entries = match args.backend {
        BackendChoice::Flex => session::run::<Flex>(args, &Machine::flex()),
        #[cfg(feature = "vulkan")]
        BackendChoice::Vulkan => {
            session::run::<bench_machine::cube::Vulkan>(args, &bench_machine::cube::vulkan())
        }
        #[cfg(feature = "cuda")]
        BackendChoice::Cuda => {
            let machine = bench_machine::cube::cuda()?;
            session::run::<bench_machine::cube::Cuda>(args, &machine)
        }
    }?;
    println!("\n{}", Summary(&entries));
    Ok(())
}

fn bench_kernels(args: &KernelArgs) -> Result<()> {
    fn measure<B: burn_amp_kernels::Kernels>(
        args: &KernelArgs,
        machine: &Machine,
    ) -> Result<Vec<Measurement>> {
        let (shapes, out) = (&args.shapes, args.out.as_deref());
        kernels::measure::<B>(machine.backend, &machine.device, shapes, out)
    }
    let measurements = match args.backend {
        BackendChoice::Flex => measure::<Flex>(args, &Machine::flex()),
        #[cfg(feature = "vulkan")]
        BackendChoice::Vulkan => {
            measure::<bench_machine::cube::Vulkan>(args, &bench_machine::cube::vulkan())
        }
        #[cfg(feature = "cuda")]
        BackendChoice::Cuda => {
            let machine = bench_machine::cube::cuda()?;
            measure::<bench_machine::cube::Cuda>(args, &machine)
        }
    }?;
    print!("{}", Table(&measurements));
    Ok(())
}
