//! Measures training throughput and peak memory of the zoo's models: models x batch sizes x precisions.
//!
//! ```text
//! cargo run --release -p lab --bin bench -- --model mlp resnet18 --size tiny --out ours.jsonl
//! cargo run --release -p lab --bin bench --features cuda,fusion -- --backend cuda \
//!     --model mlp-large resnet50 bert bert:batch_size=16,seq_len=512 --budget-seconds 240 --out ours.jsonl
//! cargo run --release -p lab --bin bench -- table ours.jsonl pytorch.jsonl
//! cargo run --release -p lab --bin bench -- kernels
//! ```
//!
//! The baseline is the same model, batch and optimizer on plain Burn in F32; `examples/lab/pytorch` measures the same
//! in PyTorch, and its README says what every number means. A step is forward, loss, backward, AdamW and a sync of the
//! device, over one fixed synthetic batch that lies on the device. The sync is inside the timed region: without it the
//! time of queueing the kernels would be measured. `book/src/gpu.md` says how both sides run on a GPU machine without Rust.
//!
//! | differs from PyTorch's | how |
//! |---|---|
//! | `f32`, `amp-*` | the policies of [`lab::precision`], whatever `amp.toml` says |
//! | `o2` | parameters stored low, with F32 master weights; PyTorch's autocast has no counterpart |
//! | `amp-f16-unscaled` | no loss scale and no check of the gradients: the difference to `amp-f16` is their cost |
//! | `amp-decomposed` | softmax, layer norm and gelu as Burn composes them: the difference is what the kernels gain |
//! | `peak_memory_bytes` | sampled over two more steps after the timed ones, because CubeCL does not record the peak; `null` on Flex |
//!
//! * [`cli`], [`plan`]: the command line and the list of runs
//! * [`session`]: one run after the other, within the [`budget`]; a run that panics does not stop the others
//! * [`measure`], [`training`]: one run
//! * [`summary`]: the runs of a session; [`comparison`]: ours and PyTorch's side by side; [`list`]: the models and
//!   precisions to choose from
//! * [`kernels`]: each kernel alone, against its reference

mod budget;
mod cli;
mod comparison;
mod kernels;
mod list;
mod measure;
mod plan;
mod progress;
mod session;
mod summary;
mod training;

use anyhow::Result;
use burn_amp::AmpBackend;
use clap::Parser;
use lab::{
    cli::{Backend, OnBackend},
    entry::read_all,
    machine::Machine,
};

use crate::{
    cli::{Args, Command, KernelArgs, RunArgs},
    comparison::Comparison,
    list::List,
    summary::Summary,
};

fn main() -> Result<()> {
    let Args { command, run } = Args::parse();
    match command {
        Some(Command::Table { files }) => print!("{}", Comparison(&read_all(&files)?)),
        Some(Command::Kernels(args)) => args.backend.run(&args)?,
        None if run.list => print!("{List}"),
        None => run.backend.run(&run)?,
    }
    Ok(())
}

impl OnBackend for &RunArgs {
    fn call<P: AmpBackend>(self, machine: &Machine) -> Result<()> {
        println!("\n{}", Summary(&session::run::<P>(self, machine)?));
        if self.backend == Backend::Flex {
            println!("The CPU emulates half precision: these times say nothing about a GPU.");
        }
        Ok(())
    }
}

impl OnBackend for &KernelArgs {
    fn call<P: AmpBackend>(self, machine: &Machine) -> Result<()> {
        let measured = kernels::measure::<P>(machine, &self.shapes, self.out.as_deref())?;
        print!("{}", kernels::table(&measured));
        if self.backend == Backend::Flex {
            println!(
                "On the CPU a kernel is its reference, so what differs is noise. Measure on a GPU: `--backend cuda`."
            );
        }
        Ok(())
    }
}
