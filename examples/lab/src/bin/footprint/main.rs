//! Measures what a training step keeps, holds, moves and launches, and how exact its gradients are: BF16 and F16 beside
//! F32, and beside PyTorch's autocast.
//!
//! ```text
//! cargo run --release -p lab --bin footprint -- --subject resnet18 bn-residual
//! cargo run --release -p lab --bin footprint -- --pytorch DIR --into book/src/footprint.md --json footprint.json
//! cargo run --release -p lab --bin footprint -- --subject lstm --ops
//! ```
//!
//! The subjects are the zoo at its tiny size with eight times its batch, and the [`blocks`] that nets are made of; the
//! backend is Flex, in the default configuration. None of the numbers depends on the speed of the machine.
//!
//! | measure | what it is |
//! |---|---|
//! | kept | bytes on the heap that the graph and its output hold after the forward pass, without parameters, the batch, and the low copies of parameters, which a step needs once and not per item |
//! | kept of each further batch | the bytes that doubling the batch adds to kept: saved tensors alone, without the nodes of the graph; compared with the storages that PyTorch's autograd saves |
//! | kept under checkpointing | the same with Burn's `BalancedCheckpointing` |
//! | peak | the most bytes on the heap during a forward and a backward pass, without parameters and the batch |
//! | traffic | bytes that the ops of both passes read and write, without matrix products and convolutions, whose traffic depends on their tiling; see [`counting`] |
//! | launches | ops of both passes, without views |
//! | gradient error | ‖g − g₆₄‖ / ‖g₆₄‖ over all parameters, where g₆₄ is PyTorch's gradient in F64 from the same weights and batch |
//!
//! `--pytorch DIR` names the folder that `examples/lab/pytorch/footprint.py` wrote: PyTorch's numbers, and the weights,
//! batches and F64 gradients.
//!
//! * [`cli`]: the command line
//! * [`subject`], [`blocks`]: what is measured; [`precision`]: the backends that it is measured on
//! * [`counting`]: the backend that counts launches and traffic
//! * [`memory`], [`gradients`] with [`relative`]: the measurements; [`heavy`]: those of whole training steps and of large blocks
//! * [`row`], [`pytorch`]: the numbers of a subject, ours and PyTorch's
//! * [`report`], [`by_op`]: the tables

#![recursion_limit = "256"]

mod blocks;
mod by_op;
mod cli;
mod counting;
mod eight_bits;
mod gradients;
mod heavy;
mod memory;
mod precision;
mod pytorch;
mod relative;
mod report;
mod row;
mod subject;

use std::fs;

use anyhow::{Context, Result};
use clap::Parser;
use peak_alloc::PeakAlloc;

use crate::{cli::Args, heavy::Heavy, pytorch::PyTorch, report::Report, row::Measure};

/// Counts the heap, where Flex has its tensors.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn main() -> Result<()> {
    let args = Args::parse();
    let pytorch = args.pytorch.as_deref().map(PyTorch::open).transpose()?;
    let mut rows = Vec::new();
    let mut eight_bits = Vec::new();
    let mut ops = String::new();
    for name in args.subjects() {
        eprintln!("{name}");
        let measure = Measure {
            name,
            pytorch: pytorch.as_ref(),
        };
        let measured =
            subject::visit(name, measure).expect("the command line holds names of subjects")?;
        if args.ops {
            ops += &by_op::table(name, &measured.launches);
        }
        rows.extend(measured.rows);
        if zoo::ZOO.iter().any(|entry| entry.name == name) {
            eight_bits.extend(subject::visit(name, eight_bits::Measure(name)));
        }
    }
    let heavy = args.subject.is_empty().then(Heavy::measure);
    let report = Report {
        rows,
        eight_bits,
        heavy,
        pytorch,
    };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &args.into {
        let page = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let page = report
            .on_page(&page)
            .with_context(|| path.display().to_string())?;
        fs::write(path, page).with_context(|| path.display().to_string())?;
    }
    print!("{}{ops}", report.text(args.markdown));
    Ok(())
}
