//! `cargo xtask test`: the one test command, for people and for continuous integration.
//!
//! Steps run in the order of [`steps`], cheap ones first, and stop at the first failure. Compiling Burn takes most of
//! the time, so all that runs on the CPU and on CUDA's source shares one build of it: the suites choose theirs by a
//! feature of their own package, which changes nothing below it. Vulkan under Fusion has another one, and so have the lints.
//!
//! * [`steps`]: what runs; [`step`]: the kinds of steps
//! * [`modules`]: tests in processes, a module in each; [`report`]: the outcomes; [`times`]: how long steps took
//! * [`manifests`], [`package`], [`msrv`]: steps that are more than a command
//! * [`tools`]: programs that steps need

mod manifests;
pub mod modules;
mod msrv;
mod package;
mod report;
mod step;
mod steps;
mod times;
mod tools;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, builder::PossibleValuesParser};

use self::{
    report::{Outcome, Report, summary},
    step::Step,
    steps::{QUICK, QUICK_TEST, REST, TEST},
    times::Times,
};

/// The options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Runs only this step; may be given several times
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(all().map(|step| step.name)))]
    only: Vec<String>,
    /// For daily use: the checks that need no build of Burn, and the suite on the CPU; says what it leaves out
    #[arg(long, conflicts_with_all = ["only", "rest", "all"])]
    quick: bool,
    /// The other steps: Vulkan, CUDA's launches and compiler, documentation, single crates
    #[arg(long, conflicts_with_all = ["only", "all"])]
    rest: bool,
    /// All steps: those without an option, then those of `--rest`
    #[arg(long, conflicts_with = "only")]
    all: bool,
    /// Starts no step after this many minutes; names those that it left out
    #[arg(long, value_name = "MINUTES")]
    start_within: Option<u64>,
    /// Lists the steps, with the times that they took when they last passed
    #[arg(long)]
    list: bool,
}

impl Options {
    fn steps(&self) -> Vec<&'static Step> {
        if !self.only.is_empty() {
            return all()
                .filter(|step| self.only.iter().any(|name| name == step.name))
                .collect();
        }
        match (self.quick, self.rest, self.all) {
            (true, ..) => quick().collect(),
            (_, true, _) => REST.iter().collect(),
            (.., true) => all().collect(),
            _ => TEST.iter().collect(),
        }
    }
}

/// Runs the chosen steps and prints the outcome of each; fails if one of them did.
pub fn run(options: &Options) -> ExitCode {
    if options.list {
        print!("{}", list(&Times::read()));
        return ExitCode::SUCCESS;
    }

    let steps = options.steps();
    println!("{} steps: {}", steps.len(), names(&steps));
    if options.only.is_empty() {
        let left_out: Vec<_> = all()
            .filter(|step| !steps.iter().any(|chosen| chosen.name == step.name))
            .collect();
        if !left_out.is_empty() {
            println!(
                "left out, of `cargo xtask test --all`: {}",
                names(&left_out)
            );
        }
    }
    let end = options
        .start_within
        .map(|minutes| Instant::now() + Duration::from_mins(minutes));
    let reports = run_all(&steps, end);
    print!("\n{}", summary(&reports));
    match reports.iter().any(Report::has_failed) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Runs steps up to the first failure; starts none after `end`.
fn run_all(steps: &[&'static Step], end: Option<Instant>) -> Vec<Report> {
    let mut times = Times::read();
    let mut reports: Vec<Report> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let start = Instant::now();
        let outcome = if reports.iter().any(Report::has_failed) {
            Outcome::NotRun
        } else if end.is_some_and(|end| start >= end) {
            Outcome::Skipped("`--start-within` has passed".to_owned())
        } else {
            let (number, count) = (index + 1, steps.len());
            println!("\n[{number}/{count}] {}: {}", step.name, step.what());
            let outcome = step.run();
            println!("{} took {:.0} s", step.name, start.elapsed().as_secs_f64());
            outcome
        };
        let took = start.elapsed();
        match &outcome {
            Outcome::Failed(error) => {
                println!("error: {error:#}");
                println!("to repeat this step: cargo xtask test --only {}", step.name);
            }
            Outcome::Passed => {
                times.set(step.name, took);
                if let Err(error) = times.write() {
                    println!("the time of this step was not written: {error:#}");
                }
            }
            Outcome::Skipped(_) | Outcome::NotRun => {}
        }
        reports.push(Report {
            name: step.name,
            proves: step.proves,
            outcome,
            took,
        });
    }
    reports
}

/// A line for each step, below the command that runs it.
fn list(times: &Times) -> String {
    let mut text = String::new();
    for (command, steps) in [
        ("cargo xtask test", TEST),
        ("cargo xtask test --rest", REST),
    ] {
        text += &format!("{command}\n");
        for step in steps {
            let time = times.column(step.name);
            text += &format!("  {:14} {time}  {}\n", step.name, step.what());
        }
    }
    text
}

fn names(steps: &[&Step]) -> String {
    let names: Vec<_> = steps.iter().map(|step| step.name).collect();
    names.join(", ")
}

/// All steps, in their order.
fn all() -> impl Iterator<Item = &'static Step> {
    TEST.iter().chain(REST)
}

/// The steps of `--quick`.
fn quick() -> impl Iterator<Item = &'static Step> {
    all()
        .filter(|step| QUICK.contains(&step.name))
        .chain([&QUICK_TEST])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Options = Options {
        only: Vec::new(),
        quick: false,
        rest: false,
        all: false,
        start_within: None,
        list: false,
    };

    #[test]
    fn step_names_are_unique() {
        let mut names: Vec<_> = all().chain([&QUICK_TEST]).map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_quick_steps_are_steps() {
        assert_eq!(quick().count(), QUICK.len() + 1);
    }

    #[test]
    fn the_test_command_and_the_rest_are_all_steps() {
        let names = |options: Options| names(&options.steps());
        let test = names(NONE);
        let rest = names(Options { rest: true, ..NONE });
        assert_eq!(
            names(Options { all: true, ..NONE }),
            format!("{test}, {rest}")
        );
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_list() {
        let only = ["vulkan", "test", "fmt"].map(str::to_owned).into();
        let steps = Options { only, ..NONE }.steps();
        assert_eq!(names(&steps), "fmt, test, vulkan");
    }

    #[test]
    fn no_step_starts_after_the_end() {
        let steps: Vec<_> = all().collect();
        let reports = run_all(&steps, Some(Instant::now()));
        assert_eq!(reports.len(), steps.len());
        for report in &reports {
            assert!(
                matches!(report.outcome, Outcome::Skipped(_)),
                "{}",
                report.name
            );
        }
    }

    #[test]
    fn the_list_has_every_step_with_its_last_time() {
        let mut times = Times::default();
        times.set("fmt", std::time::Duration::from_secs(2));
        let text = list(&times);
        assert_eq!(text.lines().count(), all().count() + 2);
        assert!(
            text.contains("\n  fmt                 2.0 s  cargo fmt"),
            "{text}"
        );
        assert!(
            text.contains("\n  vulkan                -    cargo test"),
            "{text}"
        );
    }
}
