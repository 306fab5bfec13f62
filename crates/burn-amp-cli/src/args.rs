//! The command line.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use burn_amp_core::{Class, Compute, Precision, Preset, formats::Simulate};
use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;

const EXIT_STATUS: &str = "\
Exit status:
  0  done; what was checked is right
  1  what was checked is wrong: the configuration, the name of an op, a report that differs from another, a program
     without burn-amp
  2  the command line is wrong, or a file cannot be read or written";

/// Checks amp.toml and explains in which precision burn-amp runs the ops of a Burn model.
#[derive(Debug, Parser)]
#[command(name = "burn-amp", version, after_help = EXIT_STATUS)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Write JSON instead of text; an error is then `{"error": "…"}` on standard output
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Validate amp.toml and the BURN_AMP_* variables, and show where each value is from
    #[command(after_help = "\
Reads what a training run started in this folder would read: amp.toml or amp.json here or in the nearest parent folder
that has one, and the BURN_AMP_* variables, which override it.

Examples:
  burn-amp check                          the configuration of this folder
  burn-amp check configs/large.toml       another file
  BURN_AMP_PRESET=o2 burn-amp check       with a variable
  burn-amp check --json | jq .policy")]
    Check(CheckArgs),
    /// List ops with the classes that decide their precision
    #[command(after_help = "\
The classes are those in force: of the preset, with the [ops] of amp.toml and BURN_AMP_OPS.

  low       operands are cast to the compute dtype, bf16 or f16
  full      operands are cast to f32, and the result is f32
  internal  computed in f32; the result is cast back to the operands' dtype
  widest    operands are cast to the widest dtype among them
  keep      operands stay as they are

Examples:
  burn-amp ops --class full               what runs in f32
  burn-amp ops softmax                    ops whose name contains a word
  burn-amp ops --changed                  what amp.toml changes
  burn-amp ops --defaults --trait Module  the classes of `o1`, without amp.toml")]
    Ops(OpsArgs),
    /// Say in which precision an op runs, why, and how to change it
    #[command(after_help = "\
An op has the name of the method of Burn's op traits, `float_matmul`; `matmul` will do. A wrong name gets the nearest
one.

Examples:
  burn-amp explain float_div
  burn-amp explain exp --compute f16")]
    Explain(ExplainArgs),
    /// Write an amp.toml in which every key has its default and a comment
    #[command(after_help = "\
Examples:
  burn-amp init                           amp.toml in this folder
  burn-amp init --compute f16 --preset o2
  burn-amp init -                         to standard output")]
    Init(InitArgs),
    /// Show the precision report of a run, or what differs between two
    #[command(after_help = "\
`[report] steps = 10` in amp.toml, or BURN_AMP_REPORT_STEPS=10, makes a training run write amp-report.json.

Examples:
  burn-amp report amp-report.json
  burn-amp report amp-report.json --html report.html
  burn-amp report before.json after.json  what differs; the exit status is then 1
  burn-amp report amp-report.json --snapshot | diff tests/precision.txt -")]
    Report(ReportArgs),
    /// Run a step of training again, or compare it with another backend, dtype or step
    #[command(after_help = "\
`[replay] output = \"step.safetensors\"` in amp.toml makes a training run write a step: that of backward pass number
`step`, or one that overflows, with `[overflow] locate`. It runs on the CPU, on any machine: as it ran, in f32 and in
f64. A step that was recorded on the CPU has the same bits.

With --on or --against, each call is run on both sides with the same operands, forward and backward, and the first one
that differs by more than its dtype allows is shown, with a program of it where plain Burn differs as well. The exit
status is then 1.

Examples:
  burn-amp replay step.safetensors        where each form is not finite first, and the ranges around that
  burn-amp replay step.safetensors --all  the ranges of all calls
  burn-amp replay step.safetensors --json | jq .f32.cause
  burn-amp replay step.safetensors --gradients            what f16 flushes, and which loss scale keeps it
  burn-amp replay step.safetensors --recipes              what its products lose in FP8, MX, NVFP4 and INT8
  burn-amp replay step.safetensors --on vulkan --program src/main.rs
  burn-amp replay step.safetensors --against f32          where a low precision loses most
  burn-amp replay step.safetensors --against other.safetensors")]
    Replay(ReplayArgs),
    /// Propose an amp.toml that runs inaccurate ops in f32 where that costs nothing
    #[command(after_help = "\
`burn_amp::diagnose::record` and `diagnose::shadow` make the two files, of the same steps:

  std::fs::write(\"report.json\", recording.finish().to_json())?;
  std::fs::write(\"shadow.json\", shadowing.finish().to_json())?;

An op whose error is above the tolerance gets class full if a step then moves at most 1 % more bytes and the op is no
product; a comment says how large the error is, and where. Other such ops are named in comments.

Examples:
  burn-amp tune report.json shadow.json --tolerance 0.01 > amp.toml
  burn-amp check")]
    Tune(TuneArgs),
    /// Say from Cargo.lock whether a program trains through burn-amp, and if not, why
    #[command(after_help = "\
From Burn 0.22 on, a patch of the manifest puts burn-amp into a program. Cargo warns once if the patch does not fit the
release of Burn that is locked, and the program then trains in f32.

Examples:
  burn-amp doctor                         the program of this folder
  burn-amp doctor ../other                another one
  burn-amp doctor --json | jq .on")]
    Doctor(DoctorArgs),
    /// Write a completion script for a shell
    #[command(after_help = "\
Examples:
  burn-amp completions bash > ~/.local/share/bash-completion/completions/burn-amp
  burn-amp completions zsh > ~/.zfunc/_burn-amp
  burn-amp completions fish > ~/.config/fish/completions/burn-amp.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The file; without it, the one that a run in this folder would find
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
}

#[derive(Args, Debug)]
pub struct OpsArgs {
    /// A part of the name
    pub name: Option<String>,
    /// Only ops of this class
    #[arg(long, value_parser = parse::<Class>)]
    pub class: Option<Class>,
    /// Only ops of the traits whose name contains this, for example `Module` or `Activation`
    #[arg(long = "trait", value_name = "NAME")]
    pub of_trait: Option<String>,
    /// Only ops whose class the configuration changes
    #[arg(long, conflicts_with = "defaults")]
    pub changed: bool,
    /// The classes of preset `o1`, without amp.toml and variables
    #[arg(long)]
    pub defaults: bool,
    #[command(flatten)]
    pub device: DeviceArgs,
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The op, for example `float_matmul`
    pub op: String,
    #[command(flatten)]
    pub device: DeviceArgs,
}

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The report, in JSON
    pub file: PathBuf,
    /// Another report, to compare the first one with
    #[arg(conflicts_with_all = ["html", "snapshot"])]
    pub other: Option<PathBuf>,
    /// Write a page for a browser
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    pub html: Option<PathBuf>,
    /// Print sorted lines without places and sizes, to compare in a test
    #[arg(long)]
    pub snapshot: bool,
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("compared").args(["on", "against"]).multiple(true)))]
pub struct ReplayArgs {
    /// The file that `replay.output` names
    pub file: PathBuf,
    /// Count how much of each gradient f16 flushes, and say which loss scale would keep it
    #[arg(long, conflicts_with = "compared")]
    pub gradients: bool,
    /// Say what each product, and the whole step, loses in FP8, MX, NVFP4 and INT8
    #[arg(long, conflicts_with_all = ["compared", "gradients"])]
    pub recipes: bool,
    /// Propose an amp.toml that simulates a recipe, without the layers that do not bear it
    #[arg(long, value_name = "RECIPE", conflicts_with_all = ["compared", "gradients", "recipes", "all"], value_parser = parse::<Simulate>)]
    pub simulate: Option<Simulate>,
    /// The backend that is looked at: flex, vulkan or cuda
    #[arg(long, value_name = "BACKEND", value_parser = parse::<Backend>)]
    pub on: Option<Backend>,
    /// What it is compared with: flex, f32, or the file of another step
    #[arg(long, value_name = "FLEX|F32|FILE")]
    pub against: Option<Against>,
    /// The compute dtype, in place of that of the step: bf16, f16 or f32
    #[arg(long, value_name = "DTYPE", value_parser = parse::<Compute>)]
    pub compute: Option<Compute>,
    /// How many times as far as its dtype allows a value may be; without it, 1
    #[arg(long, value_name = "FACTOR", requires = "compared", value_parser = tolerance)]
    pub tolerance: Option<f64>,
    /// Write the program of the first difference to a file
    #[arg(long, value_name = "FILE", requires = "compared")]
    pub program: Option<PathBuf>,
    /// Show all calls or differences, and not only those around the overflow or the first one
    #[arg(long)]
    pub all: bool,
}

#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// The Cargo.lock, or its folder; without it, the nearest one
    pub path: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct TuneArgs {
    /// The precision report, in JSON
    pub report: PathBuf,
    /// The report of a shadow comparison of the same steps, in JSON
    pub shadow: PathBuf,
    /// The largest error of an op, relative to the norm of its result in f32
    #[arg(long, value_parser = error)]
    pub tolerance: f64,
}

/// What a device would choose.
#[derive(Args, Debug)]
pub struct DeviceArgs {
    /// The dtype that the device accelerates, where `compute = "auto"` leaves the choice to it: bf16 or f16
    #[arg(long, value_name = "DTYPE", value_parser = low)]
    pub compute: Option<Precision>,
}

#[derive(Args, Debug)]
pub struct InitArgs {
    /// The file, or `-` for standard output
    #[arg(default_value = "amp.toml")]
    pub file: PathBuf,
    /// The preset: o0, o1, o2 or o3
    #[arg(long, value_parser = parse::<Preset>)]
    pub preset: Option<Preset>,
    /// The compute dtype: auto, bf16, f16 or f32
    #[arg(long, value_name = "DTYPE", value_parser = parse::<Compute>)]
    pub compute: Option<Compute>,
    /// Replace a file that exists
    #[arg(long)]
    pub force: bool,
}

/// A value that is written as a name, with the names that are allowed.
trait Choice: Copy + Send + Sync + 'static {
    const ALL: &'static [Self];
    fn name(self) -> &'static str;
}

/// Implements [`Choice`] for an enum that has `ALL` and `name`. A macro, because the enums share no trait.
macro_rules! choices {
    ($($Name:ident),+) => {
        $(impl Choice for $Name {
            const ALL: &'static [Self] = &$Name::ALL;

            fn name(self) -> &'static str {
                $Name::name(self)
            }
        })+
    };
}

choices!(Class, Preset, Compute, Precision, Backend, Simulate);

/// A backend that a step runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Flex,
    Vulkan,
    Cuda,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Flex, Self::Vulkan, Self::Cuda];

    pub fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Vulkan => "vulkan",
            Self::Cuda => "cuda",
        }
    }
}

/// What a step is compared with.
#[derive(Clone, Debug)]
pub enum Against {
    /// The CPU in the dtypes of the step.
    Flex,
    /// The CPU with every tensor in F32.
    F32,
    /// Another step.
    #[cfg_attr(
        not(feature = "replay"),
        allow(dead_code, reason = "nothing is compared")
    )]
    Step(PathBuf),
}

impl FromStr for Against {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flex" => Ok(Self::Flex),
            "f32" => Ok(Self::F32),
            _ if text.ends_with(".safetensors") || Path::new(text).is_file() => Ok(Self::Step(text.into())),
            _ => Err("allowed: flex, f32, or the file of a step. The reference computes in f64 too, which vulkan has not".into()),
        }
    }
}

fn parse<T: Choice>(name: &str) -> Result<T, String> {
    one_of(T::ALL, name)
}

fn error(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(error) if error > 0.0 && error < 1.0 => Ok(error),
        Ok(_) | Err(_) => Err("allowed: a number between 0 and 1".into()),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.0..=1e6).contains(&factor) => Ok(factor),
        Ok(_) | Err(_) => Err("allowed: a number from 1 to 1e6".into()),
    }
}

fn low(name: &str) -> Result<Precision, String> {
    one_of(&[Precision::BF16, Precision::F16], name)
}

fn one_of<T: Choice>(all: &[T], name: &str) -> Result<T, String> {
    let found = all.iter().find(|choice| choice.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|choice| choice.name()).collect();
        format!("allowed: {}", names.join(", "))
    })
}
