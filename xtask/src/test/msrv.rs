//! The step `msrv`: checks that burn-amp compiles with the Rust version that its manifests declare.
//!
//! If the running compiler has that version, the other steps already check this. Otherwise the step uses the declared
//! version if rustup has it. The manifests declare a version that has built the workspace, although Burn declares an
//! older one: a version that nobody has tried is not promised.

use std::process::Command;

use anyhow::{Context, Result};
use toml::de::{DeTable, DeValue};

use super::report::Outcome;
use crate::workspace;

/// Runs the step.
pub fn check() -> Outcome {
    match try_check() {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(error),
    }
}

fn try_check() -> Result<Outcome> {
    let manifest = std::fs::read_to_string(workspace::root().join("Cargo.toml"))?;
    let declared = declared(&manifest)?;
    let running = workspace::output(Command::new("rustc").arg("--version"))?;
    if running
        .split_whitespace()
        .nth(1)
        .is_some_and(|version| is(version, &declared))
    {
        println!("this is Rust {declared}; the other steps already check it");
        return Ok(Outcome::Passed);
    }
    let toolchains = workspace::output(Command::new("rustup").args(["toolchain", "list"]));
    let Some(toolchain) = toolchains
        .ok()
        .and_then(|list| toolchain(&list, &declared).map(str::to_owned))
    else {
        let why =
            format!("Rust {declared} is not installed; `rustup toolchain install {declared}`");
        println!("{why}");
        return Ok(Outcome::Skipped(why));
    };
    // Through rustup, because the cargo that runs this program does not accept `+toolchain`.
    let mut cargo = workspace::command("rustup", &["run", &toolchain, "cargo", "check"]);
    cargo.args(["--package", "burn-amp"]);
    cargo.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
    workspace::run(&mut cargo)?;
    Ok(Outcome::Passed)
}

/// Returns `workspace.package.rust-version`.
fn declared(manifest: &str) -> Result<String> {
    let manifest = DeTable::parse(manifest)?;
    let package = manifest
        .get_ref()
        .get("workspace")
        .and_then(|workspace| workspace.get_ref().get("package"));
    match package.and_then(|package| package.get_ref().get("rust-version")) {
        Some(version) => match version.get_ref() {
            DeValue::String(version) => Ok(version.to_string()),
            _ => anyhow::bail!("Cargo.toml: workspace.package.rust-version is not a string"),
        },
        None => None.context("Cargo.toml: no workspace.package.rust-version"),
    }
}

/// Whether `version` is `declared` or a patch release of it.
fn is(version: &str, declared: &str) -> bool {
    match version.strip_prefix(declared) {
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

/// Finds the declared version in the list that `rustup toolchain list` prints.
fn toolchain<'a>(list: &'a str, declared: &str) -> Option<&'a str> {
    list.lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            name.split('-')
                .next()
                .is_some_and(|version| is(version, declared))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declared_version_is_read_from_the_root_manifest() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        assert_eq!(declared(manifest).unwrap(), "1.95");
        for wrong in [
            "",
            "[workspace]",
            "[workspace.package]\nrust-version = 1.95",
        ] {
            assert!(declared(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_patch_release_is_the_declared_version() {
        assert!(is("1.95.0", "1.95"));
        assert!(is("1.95", "1.95"));
        assert!(!is("1.950.0", "1.95"));
        assert!(!is("1.96.0", "1.95"));
        assert!(!is("1.95.0-nightly", "1.95.1"));
    }

    #[test]
    fn the_toolchain_is_found_whatever_its_patch_release() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\n\
                    nightly-x86_64-unknown-linux-gnu\n\
                    1.95.0-x86_64-unknown-linux-gnu\n";
        let found = Some("1.95.0-x86_64-unknown-linux-gnu");
        assert_eq!(toolchain(list, "1.95"), found);
        assert_eq!(toolchain(list, "1.92"), None);
    }
}
