//! `cargo xtask cuda host`: the CPU time of a step's threads on the stand-in driver, sampled by perf.
//!
//! A step passes through up to three threads: the program's, which runs autodiff and `Amp`; Fusion's; and CubeCL's, which
//! launches. They work at the same time, so the host is as fast as the busiest of them. Each polls while it waits for another,
//! which is not counted.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{
    dry::{self, Setting},
    lines,
    plan::{Choice, Precision, Run},
    report, stand_in,
    table::Table,
};
use crate::workspace;

/// The table, a line of JSON for each run.
pub const PATH: &str = "xtask/cuda/host.jsonl";

/// The steps that are sampled.
const STEPS: u32 = 20;
/// Samples per second.
const FREQUENCY: u32 = 4999;

/// The functions of CubeCL in which a thread polls: a server without tasks, and clients of a queue that is full. Their own work
/// is small beside it.
const POLLING: [&str; 5] = [
    "Server::start",
    "enqueue",
    "submit_inner",
    "do_empty",
    "launch_inner",
];

/// The options of `cargo xtask cuda host`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// Runs this program, which was built from `examples/lab` with symbols and optimization before, instead of building it
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Writes what was found into the table
    #[arg(long)]
    write: bool,
}

/// The CPU time of a step in microseconds, thread by thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    #[serde(flatten)]
    pub run: Run,
    /// The processor.
    pub cpu: String,
    pub program_us: f64,
    pub fusion_us: f64,
    pub cubecl_us: f64,
}

impl Host {
    /// The time of the busiest thread.
    pub fn busiest(&self) -> f64 {
        self.program_us.max(self.fusion_us).max(self.cubecl_us)
    }

    /// The time of all threads together.
    pub fn total(&self) -> f64 {
        self.program_us + self.fusion_us + self.cubecl_us
    }
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if perf is missing, or a run fails.
pub fn run(options: &Options) -> Result<()> {
    let mut choice = options.choice.clone();
    if choice.precision.is_empty() {
        choice.precision = vec![Precision::F32, Precision::Bf16];
    }
    let runs = choice.runs()?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build()?,
    };
    let setting = Setting::prepare(Some(&program))?;
    let hosts: Result<Vec<Host>> = runs.iter().map(|run| take(&setting, run)).collect();
    setting.clear()?;
    let hosts = hosts?;
    print!("{}", report::hosts(&hosts, &Table::read()?.0)?);
    if options.write {
        let mut table = read()?;
        lines::replace(&mut table, hosts, |old, new| old.run == new.run);
        lines::write(PATH, &table)?;
    }
    Ok(())
}

/// Reads the table of the repository.
pub fn read() -> Result<Vec<Host>> {
    lines::read(PATH)
}

/// Builds the program as it is carried to a GPU machine, but with its symbols.
fn build() -> Result<PathBuf> {
    let mut cargo = dry::build_command(&["--profile", "gpu"]);
    cargo.env("CARGO_PROFILE_GPU_STRIP", "none");
    workspace::executable(&mut cargo, "dry")
}

/// Samples the threads of a run.
fn take(setting: &Setting, run: &Run) -> Result<Host> {
    let folder = stand_in::work()?.join("host");
    fs::create_dir_all(&folder)?;
    let [control, samples] =
        ["control", "samples"].map(|file| folder.join(format!("{}-{file}", run.file_name())));
    if control.exists() {
        fs::remove_file(&control)?;
    }
    workspace::run(Command::new("mkfifo").arg(&control))?;
    let outcome = setting.take_with(run, |program| {
        program.arg("--control").arg(&control);
        program.arg("--profiled").arg(STEPS.to_string());
        stand_in::succeed(&mut sampled(program, &control, &samples)).context("perf record")
    });
    fs::remove_file(&control)?;
    outcome?;
    let host = count(run, &report_of(&samples)?)?;
    println!("{:6.1} ms  {run}", host.busiest() / 1e3);
    Ok(host)
}

/// The program under perf, which samples when it is told to. Only the program finds the stand-in.
fn sampled(program: &Command, control: &Path, samples: &Path) -> Command {
    let mut perf = Command::new("perf");
    perf.args(["record", "--event", "cpu-clock:u", "--delay", "-1"]);
    perf.arg(format!("--freq={FREQUENCY}"));
    perf.arg(format!("--control=fifo:{}", control.display()));
    perf.arg("--output").arg(samples).args(["--", "env"]);
    for (name, value) in program.get_envs() {
        let mut variable = name.to_owned();
        variable.push("=");
        variable.push(value.unwrap_or_default());
        perf.arg(variable);
    }
    perf.arg(program.get_program()).args(program.get_args());
    if let Some(folder) = program.get_current_dir() {
        perf.current_dir(folder);
    }
    perf
}

/// The samples by thread and function: lines of `number;thread;[.] function`.
fn report_of(samples: &Path) -> Result<String> {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--quiet", "--field-separator=;"]);
    perf.args(["--sort", "comm,sym", "--fields", "sample,comm,sym"]);
    let output = perf.arg("--input").arg(samples).output()?;
    ensure!(
        output.status.success(),
        "perf report: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Adds up the samples in which a thread worked.
fn count(run: &Run, report: &str) -> Result<Host> {
    let [mut program, mut fusion, mut cubecl] = [0f64; 3];
    for line in report.lines().filter(|line| !line.trim().is_empty()) {
        let mut fields = line.splitn(3, ';').map(str::trim);
        let mut field = || {
            fields
                .next()
                .with_context(|| format!("perf report: {line}"))
        };
        let (samples, thread, function) = (field()?, field()?, field()?);
        let samples: f64 = samples
            .parse()
            .with_context(|| format!("perf report: {line}"))?;
        if POLLING.iter().any(|polling| function.contains(polling)) {
            continue;
        }
        // CubeCL names its threads by the stage: upstream for Fusion, and downstream for its own.
        *match thread {
            thread if thread.starts_with("DSU") => &mut fusion,
            thread if thread.starts_with("DSD") => &mut cubecl,
            _ => &mut program,
        } += samples / f64::from(FREQUENCY) / f64::from(STEPS) * 1e6;
    }
    ensure!(program > 0.0, "perf has no samples of {run}");
    Ok(Host {
        run: run.clone(),
        cpu: cpu()?,
        program_us: program.round(),
        fusion_us: fusion.round(),
        cubecl_us: cubecl.round(),
    })
}

/// The name of the processor.
fn cpu() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = name.unwrap_or(": unknown");
    Ok(name.trim_start_matches([' ', '\t', ':']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_polls_does_not_work() {
        let run = Choice::default().runs().unwrap().remove(0);
        let report = "\n  4999;program-12;[.] burn_autodiff::step\n   100;DSU-0-0;[.] a::Server::start\n\
                      250;DSU-0-0;[.] burn_fusion::a, b\n    50;DSD-0-0;[.] alloc;free\n";
        let host = count(&run, report).unwrap();
        let per_sample = 1e6 / f64::from(FREQUENCY * STEPS);
        let expected = [4999.0, 250.0, 50.0].map(|samples| (samples * per_sample).round());
        assert_eq!([host.program_us, host.fusion_us, host.cubecl_us], expected);
        assert_eq!(host.busiest(), expected[0]);
        assert!(count(&run, "100;DSU;[.] x").is_err());
        assert!(count(&run, "nonsense").is_err());
    }
}
