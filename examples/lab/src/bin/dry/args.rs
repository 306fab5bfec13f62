//! The command line, which the program of the same name for Burn 0.22 shares.

use std::path::PathBuf;

use clap::Parser;
use zoo::Size;

use crate::{choice::Choice, precision::Precision};

/// Takes training steps on CUDA and marks two of them for a profiler.
#[derive(Parser)]
pub struct Args {
    /// The model, its numbers replaced if you like: `bert:seq_len=512,batch_size=16`.
    #[arg(value_name = "NAME[:FIELD=NUMBER,..]")]
    pub model: Choice,

    /// The precision to train in.
    #[arg(long, value_enum, default_value = "f32")]
    pub precision: Precision,

    /// Trains under Fusion.
    #[arg(long)]
    pub fusion: bool,

    /// The size of the model: `full` as published, `tiny` to train on a CPU in seconds.
    #[arg(long, default_value_t = Size::Full)]
    pub size: Size,

    /// The number of steps before the marked ones.
    #[arg(long, default_value_t = 2)]
    pub warmup: usize,

    /// Writes `enable` to this file before further steps and `disable` after them, as `perf record --control` reads it.
    #[arg(long, value_name = "FILE")]
    pub control: Option<PathBuf>,

    /// The number of these steps, between which nothing waits for the device.
    #[arg(long, default_value_t = 50)]
    pub profiled: usize,
}
