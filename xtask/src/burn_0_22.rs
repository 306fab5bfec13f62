//! A program for plain Burn 0.22, trained as it is and through burn-amp.
//!
//! The program knows nothing of burn-amp: `--config` patches its manifest for one run, as the chapter on Burn 0.22 tells users.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The folder of the program, relative to the root of the workspace.
const PROGRAM: &str = "burn-0.22/program";

/// What may lie between a loss in low precision and that in F32, relative to it: some hundred units of BF16 after 40 steps.
const TOLERANCE: f32 = 0.03;

/// Checks that a policy that lowers nothing has the bits of plain Burn, and that others train alike.
///
/// # Errors
///
/// Returns an error if the losses differ, or the program does not build or says nothing.
pub fn check() -> Result<()> {
    let plain = losses("plain", None)?;
    let off = losses("amp", Some(("BURN_AMP_PRESET", "o0")))?;
    ensure!(
        off == plain,
        "o0 has other bits than plain Burn: {off:?}, not {plain:?}"
    );
    for compute in ["bf16", "f16"] {
        let low = losses("amp", Some(("BURN_AMP_COMPUTE", compute)))?;
        ensure!(low != plain, "nothing was computed in {compute}");
        ensure!(low.len() == plain.len(), "{} steps in {compute}", low.len());
        for (step, (low, plain)) in low.iter().zip(&plain).enumerate() {
            let [low, plain] = [low, plain].map(|bits| f32::from_bits(*bits));
            ensure!(
                (low - plain).abs() <= TOLERANCE * plain,
                "step {step} in {compute}: a loss of {low}, plain Burn {plain}"
            );
        }
        println!(
            "{compute}: the losses of {} steps are those of plain Burn",
            low.len()
        );
    }
    Ok(())
}

/// Builds the program in a folder below `target/burn-0.22` and runs it; returns the bits of its losses. With a `setting`, a
/// variable of burn-amp, it trains through burn-amp.
fn losses(folder: &str, setting: Option<(&str, &str)>) -> Result<Vec<u32>> {
    let root = workspace::root();
    let target = root.join("target/burn-0.22");
    let program = target.join(folder);
    fs::create_dir_all(program.join("src"))?;
    for file in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        let from = root.join(PROGRAM).join(file);
        fs::copy(&from, program.join(file)).with_context(|| from.display().to_string())?;
    }
    let mut cargo = workspace::cargo(&["run", "--quiet"]);
    cargo
        .current_dir(&program)
        .env("CARGO_TARGET_DIR", target.join("target"));
    if let Some((name, value)) = setting {
        cargo.args(["--config", &patch(&root)]).env(name, value);
    }
    let text = workspace::output(&mut cargo)?;
    let bits = text.lines().filter_map(|line| line.split_once(' '));
    let bits: Result<Vec<_>, _> = bits
        .map(|(_, bits)| u32::from_str_radix(bits, 16))
        .collect();
    let bits = bits.context("the program prints a loss and its bits")?;
    ensure!(!bits.is_empty(), "the program printed no loss");
    Ok(bits)
}

/// The patch of a manifest, as an argument of cargo.
fn patch(root: &Path) -> String {
    let path = root.join("burn-0.22/burn-autodiff");
    format!(
        "patch.crates-io.burn-autodiff.path={:?}",
        path.display().to_string()
    )
}
