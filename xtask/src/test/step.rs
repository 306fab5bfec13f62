//! The steps of the test command, and how each kind of step runs.

use std::process::Command;

use anyhow::Result;

use super::{
    modules::{self, Binary},
    report::Outcome,
    tools,
};
use crate::{vulkan, workspace};

const DENY_WARNINGS: &str = "-D warnings";

/// A named step.
pub struct Step {
    pub name: &'static str,
    /// What it proves if it passes.
    pub proves: &'static str,
    task: Task,
}

/// The action of a step.
pub enum Task {
    /// A function of this program that runs on every machine.
    Check(&'static str, fn() -> Result<()>),
    /// A function of this program that is skipped if something that it needs is missing.
    IfPossible(&'static str, fn() -> Outcome),
    /// A cargo command.
    Cargo(&'static str),
    /// Clippy on all targets of the workspace with these features, its warnings as errors.
    Clippy(&'static str),
    /// The documentation of the workspace with these features, rustdoc's warnings as errors.
    Doc(&'static str),
    /// A `cargo test` command, its tests run by [`modules`].
    Tests(&'static str),
    /// The same on the Vulkan software driver.
    Vulkan(&'static str),
}

impl Step {
    pub const fn new(name: &'static str, proves: &'static str, task: Task) -> Self {
        Self { name, proves, task }
    }

    /// Describes the step in one line.
    pub fn what(&self) -> String {
        match self.task {
            Task::Check(what, _) | Task::IfPossible(what, _) => what.to_owned(),
            Task::Cargo(args) => format!("cargo {args}"),
            Task::Tests(args) => format!("cargo {args}, a process for each module"),
            Task::Clippy(features) => workspace::line(&clippy(features)),
            Task::Doc(features) => {
                format!(
                    "RUSTDOCFLAGS='{DENY_WARNINGS}' {}",
                    workspace::line(&doc(features))
                )
            }
            Task::Vulkan(args) => {
                format!("cargo {args}, a process for each module, on the software driver")
            }
        }
    }

    pub fn run(&self) -> Outcome {
        match self.task {
            Task::Check(_, check) => check().into(),
            Task::IfPossible(_, check) => check(),
            Task::Cargo(args) => workspace::run(&mut cargo(args)).into(),
            Task::Clippy(features) => workspace::run(&mut clippy(features)).into(),
            Task::Doc(features) => {
                workspace::run(doc(features).env("RUSTDOCFLAGS", DENY_WARNINGS)).into()
            }
            Task::Tests(args) => tests(args, |_| {}).into(),
            Task::Vulkan(args) => on_vulkan(args),
        }
    }
}

/// A cargo command from its words.
fn cargo(args: &str) -> Command {
    workspace::cargo(&args.split(' ').collect::<Vec<_>>())
}

fn clippy(features: &str) -> Command {
    let mut cargo = workspace::cargo(&["clippy", "--workspace", "--all-targets"]);
    cargo.args(["--features", features, "--", "-D", "warnings"]);
    cargo
}

fn doc(features: &str) -> Command {
    workspace::cargo(&["doc", "--workspace", "--no-deps", "--features", features])
}

fn on_vulkan(args: &str) -> Outcome {
    let Some(driver) = vulkan::driver() else {
        return tools::without_means(
            "no Vulkan software driver; `cargo xtask test --only driver` installs it or says how"
                .to_owned(),
        );
    };
    tests(args, |command| vulkan::force(command, &driver)).into()
}

/// Builds tests and runs them, with what `prepare` adds to the command of each process.
fn tests(args: &str, prepare: impl Fn(&mut Command) + Sync) -> Result<()> {
    let binaries = modules::build(&mut cargo(args))?;
    let command = |binary: &Binary| {
        let mut command = binary.command();
        prepare(&mut command);
        command
    };
    modules::run(&binaries, command, |_| true)
}
