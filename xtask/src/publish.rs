//! `cargo xtask publish`: publishes all crates in their order without uploading them.

use anyhow::{Result, ensure};
use clap::Args;

use crate::workspace;

/// What `cargo xtask publish` says about crates without the address of their repository.
const NO_REPOSITORY: &str = "the manifests name no repository: set `repository` in Cargo.toml, as its comment says, before \
                             you publish";

/// The options of `cargo xtask publish`.
#[derive(Args)]
pub struct Options {
    /// Also builds each crate from what was packed, the others from there too; compiles all of Burn
    #[arg(long)]
    verify: bool,
}

/// Runs `cargo publish --dry-run` for all published crates at once: cargo puts them in order, and takes those that are not
/// on crates.io yet from what it has packed.
pub fn run(options: &Options) -> Result<()> {
    let names = workspace::published()?;
    ensure!(!names.is_empty(), "no crate is published");
    let mut cargo = workspace::cargo(&["publish", "--dry-run", "--allow-dirty"]);
    for name in &names {
        cargo.args(["--package", name]);
    }
    if !options.verify {
        cargo.arg("--no-verify");
    }
    workspace::run(&mut cargo)?;
    let members = workspace::members()?;
    let mut published = members.iter().filter(|it| workspace::is_published(it));
    if published.any(|package| package.repository.is_none()) {
        println!("{NO_REPOSITORY}");
    }
    println!(
        "nothing was uploaded; to publish: cargo login, then the same command without --dry-run, from a clean checkout of a \
         tag:\n  cargo publish --package {}",
        names.join(" --package ")
    );
    Ok(())
}
