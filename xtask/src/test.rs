//! `cargo xtask test`: the one test command, for people and for continuous integration.
//!
//! Steps run in the order of [`STEPS`], cheap ones first, and stop at the first failure. Compiling Burn takes most of
//! the time, so feature sets are few: one in check mode for lints and docs, with every GPU feature, so that code behind
//! features is linted too; that of `burn-amp` alone; and three in build mode (Flex, Vulkan, Vulkan with Fusion).

use std::{
    fmt::Write as _,
    process::{Command, ExitCode},
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::{Args, builder::PossibleValuesParser};

use crate::{ops, ops_table, vulkan, workspace};

/// The steps. Package and feature names of the workspace are said here and nowhere else.
const STEPS: &[Step] = &[
    Step::new("driver", Task::Driver),
    Step::new("components", Task::Components),
    Step::new("fmt", Task::Cargo(&["fmt", "--all", "--check"])),
    Step::new("ops", Task::Call("cargo xtask ops", ops::check)),
    Step::new(
        "ops-table",
        Task::Call("cargo xtask ops-table --check", ops_table::check),
    ),
    Step::new(
        "clippy",
        Task::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            GPU_FEATURES,
            "--",
            "-D",
            "warnings",
        ]),
    ),
    // The suite computes on one backend at a time. Without a device it is checked, and the programs that go to one.
    Step::new(
        "clippy-cuda",
        Task::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--features",
            CUDA_FEATURES,
            "--",
            "-D",
            "warnings",
        ]),
    ),
    Step::new(
        "doc",
        Task::Doc(&[
            "doc",
            "--workspace",
            "--no-deps",
            "--features",
            GPU_FEATURES,
        ]),
    ),
    // Alone, because other packages of the workspace turn on features of Burn that burn-amp may have forgotten.
    Step::new(
        "check",
        Task::Cargo(&[
            "check",
            "--package",
            "burn-amp",
            "--features",
            "cuda,vulkan,fusion",
        ]),
    ),
    // It changes the bounds of Burn's traits, and leaves only backends with collective operations to train on.
    Step::new(
        "distributed",
        Task::Cargo(&[
            "check",
            "--package",
            "burn-amp",
            "--no-default-features",
            "--features",
            "cuda,fusion,distributed,collective,train",
            "--lib",
            "--examples",
        ]),
    ),
    Step::new(
        "test",
        Task::Cargo(&[
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--examples",
        ]),
    ),
    Step::new("doctest", Task::Cargo(&["test", "--workspace", "--doc"])),
    Step::new(
        "vulkan",
        Task::Vulkan(&[
            "test",
            "--package",
            "burn-amp-tests",
            "--features",
            "vulkan",
        ]),
    ),
    Step::new(
        "vulkan-fusion",
        Task::Vulkan(&[
            "test",
            "--package",
            "burn-amp-tests",
            "--features",
            "vulkan,fusion",
        ]),
    ),
];

/// Everything that is off by default, for the steps that only check.
const GPU_FEATURES: &str =
    "burn-amp/cuda,burn-amp/vulkan,burn-amp/fusion,burn-amp-tests/vulkan,burn-amp-tests/fusion";

/// The same with the suite on CUDA, and the programs that measure.
const CUDA_FEATURES: &str = "burn-amp/cuda,burn-amp/vulkan,burn-amp/fusion,burn-amp-tests/cuda,burn-amp-tests/fusion,\
                             lab/cuda,lab/vulkan,lab/fusion";

const DENY_WARNINGS: &str = "-D warnings";

/// Which steps.
#[derive(Args)]
pub struct Options {
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
    /// Lists the steps
    #[arg(long)]
    list: bool,
}

struct Step {
    name: &'static str,
    task: Task,
}

enum Task {
    /// Installs the Vulkan software driver if it is missing.
    Driver,
    /// Installs rustfmt and clippy if they are missing.
    Components,
    /// A command of this program, by its own function.
    Call(&'static str, fn() -> Result<()>),
    /// A cargo command.
    Cargo(&'static [&'static str]),
    /// A cargo command for which rustdoc's warnings are errors.
    Doc(&'static [&'static str]),
    /// A cargo command on the Vulkan software driver.
    Vulkan(&'static [&'static str]),
}

/// How a step ended, or that it did not start.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// Could not run here, and why.
    Skipped(String),
    Failed(anyhow::Error),
    /// An earlier step failed.
    NotRun,
}

struct Report {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs the chosen steps; prints what became of each, and fails if one did.
pub fn run(options: &Options) -> ExitCode {
    if options.list {
        for step in STEPS {
            println!("{:14} {}", step.name, step.what());
        }
        return ExitCode::SUCCESS;
    }

    let mut reports = Vec::new();
    let mut failed = false;
    for step in chosen(&options.only) {
        let start = Instant::now();
        let outcome = match failed {
            true => Outcome::NotRun,
            false => {
                println!("\n== {}: {}", step.name, step.what());
                step.run()
            }
        };
        if let Outcome::Failed(error) = &outcome {
            failed = true;
            println!("error: {error:#}");
            println!("to repeat this step: cargo xtask test --only {}", step.name);
        }
        reports.push(Report {
            name: step.name,
            outcome,
            took: start.elapsed(),
        });
    }
    print!("\n{}", summary(&reports));
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The steps of these names in the order of the list; all of them if none is named.
fn chosen(only: &[String]) -> impl Iterator<Item = &'static Step> {
    STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
}

/// One line per step, and the total.
fn summary(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let (word, why) = match &report.outcome {
            Outcome::Passed => ("passed", String::new()),
            Outcome::Skipped(why) => ("SKIPPED", format!("  {why}")),
            Outcome::Failed(_) => ("FAILED", String::new()),
            Outcome::NotRun => ("not run", String::new()),
        };
        let seconds = report.took.as_secs_f64();
        let _ = writeln!(text, "{:14} {word:8} {seconds:8.1} s{why}", report.name);
    }
    let total: Duration = reports.iter().map(|report| report.took).sum();
    let _ = writeln!(text, "{:23} {:8.1} s", "total", total.as_secs_f64());
    text
}

impl Step {
    const fn new(name: &'static str, task: Task) -> Self {
        Self { name, task }
    }

    /// The step in one line.
    fn what(&self) -> String {
        match self.task {
            Task::Driver => "the Vulkan software driver, installed if missing".to_owned(),
            Task::Components => "rustfmt and clippy, installed if missing".to_owned(),
            Task::Call(what, _) => what.to_owned(),
            Task::Cargo(args) => format!("cargo {}", args.join(" ")),
            Task::Doc(args) => format!("RUSTDOCFLAGS='{DENY_WARNINGS}' cargo {}", args.join(" ")),
            Task::Vulkan(args) => format!("cargo {}, on the software driver", args.join(" ")),
        }
    }

    fn run(&self) -> Outcome {
        let result = match self.task {
            Task::Driver => return driver(),
            Task::Vulkan(args) => return on_vulkan(args),
            Task::Components => components(),
            Task::Call(_, check) => check(),
            Task::Cargo(args) => workspace::run(&mut workspace::cargo(args)),
            Task::Doc(args) => {
                workspace::run(workspace::cargo(args).env("RUSTDOCFLAGS", DENY_WARNINGS))
            }
        };
        result.into()
    }
}

impl From<Result<()>> for Outcome {
    fn from(result: Result<()>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(error) => Self::Failed(error),
        }
    }
}

fn driver() -> Outcome {
    if vulkan::driver().is_none()
        && let Err(error) = vulkan::install()
    {
        return without_driver(format!("not installed: {error:#}"));
    }
    match vulkan::driver() {
        Some(driver) => {
            println!("{}", driver.display());
            Outcome::Passed
        }
        None => without_driver("installed, but not found".to_owned()),
    }
}

fn on_vulkan(args: &[&str]) -> Outcome {
    let Some(driver) = vulkan::driver() else {
        return without_driver("the suite did not run: no Vulkan software driver".to_owned());
    };
    let mut command = workspace::cargo(args);
    vulkan::force(&mut command, &driver);
    workspace::run(&mut command).into()
}

/// Skipped with a word at the end on a developer's machine, a failure where nobody would read it.
fn without_driver(why: String) -> Outcome {
    match vulkan::required() {
        true => Outcome::Failed(anyhow::Error::msg(why)),
        false => {
            println!("{why}");
            Outcome::Skipped(why)
        }
    }
}

fn components() -> Result<()> {
    let is_there = |name| workspace::succeeds(&mut workspace::cargo(&[name, "--version"]));
    if is_there("fmt") && is_there("clippy") {
        return Ok(());
    }
    workspace::run(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique() {
        let mut names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_list() {
        let only = ["test".to_owned(), "fmt".to_owned()];
        let names: Vec<_> = chosen(&only).map(|step| step.name).collect();
        assert_eq!(names, ["fmt", "test"]);
        assert_eq!(chosen(&[]).count(), STEPS.len());
    }

    #[test]
    fn the_summary_has_a_line_per_step_and_the_total() {
        let report = |name, outcome, seconds| Report {
            name,
            outcome,
            took: Duration::from_millis(seconds),
        };
        let reports = [
            report("fmt", Outcome::Passed, 1500),
            report(
                "vulkan",
                Outcome::Skipped("the suite did not run".to_owned()),
                0,
            ),
            report("test", Outcome::Failed(anyhow::Error::msg("x")), 60_000),
            report("doctest", Outcome::NotRun, 0),
        ];
        assert_eq!(
            summary(&reports),
            "fmt            passed        1.5 s\n\
             vulkan         SKIPPED       0.0 s  the suite did not run\n\
             test           FAILED       60.0 s\n\
             doctest        not run       0.0 s\n\
             total                       61.5 s\n"
        );
    }
}
