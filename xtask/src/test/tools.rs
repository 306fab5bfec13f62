//! The programs that steps need: some are installed if missing, the others are used if present.

use std::process::Command;

use anyhow::Result;

use super::report::Outcome;
use crate::{book, cuda, vulkan, workspace};

/// Installs rustfmt and clippy if they are missing.
pub fn components() -> Result<()> {
    let is_there = |name| workspace::succeeds(&mut workspace::cargo(&[name, "--version"]));
    if is_there("fmt") && is_there("clippy") {
        return Ok(());
    }
    workspace::run(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}

/// Installs the Vulkan software driver if it is missing.
pub fn driver() -> Outcome {
    if vulkan::driver().is_none()
        && let Err(error) = vulkan::install()
    {
        return without_means(format!("not installed: {error:#}"));
    }
    match vulkan::driver() {
        Some(driver) => {
            println!("{}", driver.display());
            Outcome::Passed
        }
        None => without_means("installed, but not found".to_owned()),
    }
}

/// Compiles kernels for CUDA, if NVRTC is there or can be downloaded.
pub fn cuda_kernels() -> Outcome {
    match cuda::has_compiler() {
        Ok(()) => cuda::check_kernels().into(),
        Err(error) => without_means(format!("no kernel was compiled for CUDA: {error:#}")),
    }
}

/// Runs the tests of kernels with CUDA's source, compiled for the CPU, if there is a C++ compiler.
pub fn emulated_kernels() -> Outcome {
    emulated("kernels::")
}

/// Runs the laws of all ops so.
pub fn emulated_laws() -> Outcome {
    emulated("laws::")
}

/// Runs the random programs so.
pub fn emulated_programs() -> Outcome {
    emulated("random::")
}

fn emulated(part: &str) -> Outcome {
    match cuda::can_emulate() {
        Ok(()) => cuda::check_emulation(part).into(),
        Err(error) => without_means(format!("no kernel for CUDA ran: {error:#}")),
    }
}

/// Skips the step on a developer's machine, where the summary shows it; fails it in continuous integration.
pub fn without_means(why: String) -> Outcome {
    if vulkan::required() {
        Outcome::Failed(anyhow::Error::msg(why))
    } else {
        println!("{why}");
        Outcome::Skipped(why)
    }
}

/// Checks licences, duplicate versions and sources of the dependencies against deny.toml.
///
/// Advisories are left out, because they need the network and change independently of the repository. Continuous
/// integration checks them with `cargo deny check advisories`.
pub fn deny() -> Outcome {
    if !workspace::succeeds(&mut workspace::cargo(&["deny", "--version"])) {
        return not_installed("cargo-deny", "cargo install --locked cargo-deny");
    }
    let args = [
        "deny",
        "--workspace",
        "check",
        "licenses",
        "bans",
        "sources",
    ];
    workspace::run(&mut workspace::cargo(&args)).into()
}

/// Checks the spelling of the repository's files; `_typos.toml` has the exceptions.
pub fn typos() -> Outcome {
    if !workspace::succeeds(Command::new("typos").arg("--version")) {
        return not_installed("typos", "pip install typos");
    }
    workspace::run(&mut workspace::command("typos", &["--format", "brief"])).into()
}

/// Builds the book.
pub fn book() -> Outcome {
    if !book::can_build() {
        return not_installed("mdbook", "cargo install --locked mdbook");
    }
    book::build().into()
}

fn not_installed(program: &str, how: &str) -> Outcome {
    let why = format!("{program} is not installed; `{how}`");
    println!("{why}");
    Outcome::Skipped(why)
}
