//! `cargo xtask test`: the one test command, for people and for continuous integration.
//!
//! Steps run in the order of [`STEPS`], cheap ones first, and stop at the first failure. Compiling Burn takes most of
//! the time, so there are few sets of features: those of the lints, with and without CUDA; two for `burn-amp` alone; and
//! five that are built and run (Flex; CUDA on a driver without a device, with tuning and without; Vulkan; Vulkan with
//! Fusion).
//!
//! * [`step`]: the kinds of steps; [`halves`]: tests in two processes; [`report`]: the outcomes
//! * [`manifests`], [`package`], [`msrv`]: steps that are more than a command
//! * [`tools`]: programs that steps need

pub mod halves;
mod manifests;
mod msrv;
mod package;
mod report;
mod step;
mod tools;

use std::{process::ExitCode, time::Instant};

use clap::{Args, builder::PossibleValuesParser};

use self::{
    report::{Outcome, Report, summary},
    step::{Step, Task},
};
use crate::{book, config, cuda, mistakes, ops, ops_table};

/// The steps.
const STEPS: &[Step] = &[
    Step::new(
        "driver",
        Task::IfPossible(
            "the Vulkan software driver, installed if missing",
            tools::driver,
        ),
    ),
    Step::new(
        "components",
        Task::Check(
            "rustfmt and clippy, installed if missing",
            tools::components,
        ),
    ),
    Step::new(
        "manifests",
        Task::Check("every *.toml file is valid TOML", manifests::check),
    ),
    Step::new(
        "package",
        Task::Check("the published crates, as cargo packs them", package::check),
    ),
    Step::new("fmt", Task::Cargo(&["fmt", "--all", "--check"])),
    Step::new("typos", Task::IfPossible("typos", tools::typos)),
    Step::new(
        "deny",
        Task::IfPossible("cargo deny check licenses bans sources", tools::deny),
    ),
    Step::new("ops", Task::Check("cargo xtask ops", ops::check)),
    Step::new(
        "ops-table",
        Task::Check("cargo xtask ops-table --check", ops_table::check),
    ),
    Step::new(
        "config",
        Task::Check("cargo xtask config --check", config::check),
    ),
    Step::new(
        "pages",
        Task::Check("the links of all Markdown pages", book::check),
    ),
    Step::new("book", Task::IfPossible("mdbook build book", tools::book)),
    Step::new(
        "msrv",
        Task::IfPossible("burn-amp with the Rust version it declares", msrv::check),
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
    // The suite runs on one backend at a time, so its CUDA variant is another build. No device is needed to check it.
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
    // By itself, because other packages of the workspace turn on features of Burn that burn-amp may have forgotten.
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
    // `distributed` changes the bounds of Burn's traits: only backends with collective operations can train.
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
        Task::Tests(&[
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--examples",
        ]),
    ),
    // With the features of the step before.
    Step::new(
        "mistakes",
        Task::Check("cargo xtask mistakes --check", mistakes::check),
    ),
    // Tiny models on a driver without a device: another build of Burn, with CUDA.
    Step::new(
        "cuda-dry",
        Task::Check("cargo xtask cuda dry --quick", cuda::check_steps),
    ),
    Step::new(
        "cuda-compile",
        Task::IfPossible("cargo xtask cuda compile --quick", tools::cuda_kernels),
    ),
    // Without tuning, which CUDA's other step has: a third build of some of Burn's packages.
    Step::new(
        "cuda-emulate",
        Task::IfPossible("cargo xtask cuda emulate kernels::", tools::cuda_emulation),
    ),
    Step::new("doctest", Task::Cargo(&["test", "--workspace", "--doc"])),
    Step::new(
        "vulkan",
        Task::Vulkan(&[
            "test",
            "--workspace",
            "--test",
            "suite",
            "--test",
            "launches",
            "--features",
            "burn-amp-tests/vulkan",
        ]),
    ),
    Step::new(
        "vulkan-fusion",
        Task::Vulkan(&[
            "test",
            "--workspace",
            "--test",
            "suite",
            "--test",
            "launches",
            "--features",
            "burn-amp-tests/vulkan,burn-amp-tests/fusion",
        ]),
    ),
];

/// The steps of `--quick`, besides [`QUICK_TEST`]: those that need no build of Burn.
const QUICK: &[&str] = &[
    "manifests",
    "fmt",
    "typos",
    "ops",
    "ops-table",
    "config",
    "pages",
    "book",
];

/// The tests of `--quick`, with the features of the step `test`: what one of them has built, the other uses.
const QUICK_TEST: Step = Step::new(
    "quick-test",
    Task::Tests(&[
        "test",
        "--workspace",
        "--lib",
        "--bin",
        "burn-amp",
        "--bin",
        "xtask",
        "--test",
        "suite",
        "--test",
        "zoo",
        "--test",
        "warnings",
    ]),
);

/// The GPU features, for the steps that only check.
const GPU_FEATURES: &str =
    "burn-amp/cuda,burn-amp/vulkan,burn-amp/fusion,burn-amp-tests/vulkan,burn-amp-tests/fusion";

/// The GPU features with the suite on CUDA, and with the benchmarks on CUDA and Vulkan.
const CUDA_FEATURES: &str = "burn-amp/cuda,burn-amp/vulkan,burn-amp/fusion,burn-amp-tests/cuda,burn-amp-tests/fusion,\
                             lab/cuda,lab/vulkan,lab/fusion";

/// The options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
    /// For daily use: the checks that need no build of Burn, and the suite on the CPU; says what it leaves out
    #[arg(long, conflicts_with = "only")]
    quick: bool,
    /// Lists the steps
    #[arg(long)]
    list: bool,
}

/// Runs the chosen steps and prints the outcome of each; fails if one of them did.
pub fn run(options: &Options) -> ExitCode {
    if options.list {
        for step in STEPS {
            println!("{:14} {}", step.name, step.what());
        }
        return ExitCode::SUCCESS;
    }

    let steps: Vec<_> = match options.quick {
        true => quick().collect(),
        false => chosen(&options.only).collect(),
    };
    println!("{} steps: {}", steps.len(), names(&steps));
    if options.quick {
        let left_out: Vec<_> = STEPS
            .iter()
            .filter(|step| !QUICK.contains(&step.name))
            .collect();
        println!("left out, of `cargo xtask test`: {}", names(&left_out));
    } else if options.only.is_empty() {
        println!(
            "the first run compiles Burn with several sets of features, most of an hour on two cores; later ones \
             compile what has changed; `--quick` is for daily use"
        );
    }
    let mut reports = Vec::new();
    let mut failed = false;
    for (index, step) in steps.iter().enumerate() {
        let start = Instant::now();
        let outcome = if failed {
            Outcome::NotRun
        } else {
            println!(
                "\n[{}/{}] {}: {}",
                index + 1,
                steps.len(),
                step.name,
                step.what()
            );
            let outcome = step.run();
            println!("{} took {:.0} s", step.name, start.elapsed().as_secs_f64());
            outcome
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
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn names(steps: &[&Step]) -> String {
    let names: Vec<_> = steps.iter().map(|step| step.name).collect();
    names.join(", ")
}

/// The steps of `--quick`.
fn quick() -> impl Iterator<Item = &'static Step> {
    let checks = STEPS.iter().filter(|step| QUICK.contains(&step.name));
    checks.chain([&QUICK_TEST])
}

/// The steps with these names, in the order of [`STEPS`]; all of them if none is named.
fn chosen(only: &[String]) -> impl Iterator<Item = &'static Step> {
    STEPS
        .iter()
        .filter(|step| only.is_empty() || only.iter().any(|name| name == step.name))
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
    fn the_quick_steps_are_steps() {
        assert_eq!(quick().count(), QUICK.len() + 1);
        assert!(chosen(&[]).all(|step| step.name != QUICK_TEST.name));
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_list() {
        let only = ["test".to_owned(), "fmt".to_owned()];
        let names: Vec<_> = chosen(&only).map(|step| step.name).collect();
        assert_eq!(names, ["fmt", "test"]);
        assert_eq!(chosen(&[]).count(), STEPS.len());
    }
}
