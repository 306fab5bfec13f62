//! burn-amp for Burn 0.22: its tests, and programs of users with the patch and without.
//!
//! `program` knows nothing of burn-amp, `ask` depends on the crate `burn-amp`, and `learner` is compiled only. `--config`
//! patches the manifests of the first two for one run, as the chapter on Burn 0.22 tells users.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    test::modules::{self, Binary},
    workspace,
};

/// The workspace, relative to the root of the repository.
const WORKSPACE: &str = "burn-0.22";

/// What may lie between a loss in low precision and that in F32, relative to it: some hundred units of BF16 after 40 steps.
const TOLERANCE: f32 = 0.03;

/// Checks that the tests pass, that the `Learner` compiles, that a policy that lowers nothing has the bits of plain Burn, that others train alike, and that
/// a program without the patch is told.
///
/// # Errors
///
/// Returns an error if one of these does not hold, or a program does not build.
pub fn check() -> Result<()> {
    let root = workspace::root().join(WORKSPACE);
    let cargo = |args: &[&str]| {
        let mut cargo = workspace::cargo(args);
        cargo.current_dir(&root).env("CARGO_TARGET_DIR", target());
        cargo
    };
    workspace::output(&mut cargo(&["fmt", "--all", "--check"]))?;
    let packages = ["-p", "burn-amp", "-p", "burn-amp-tests"];
    let mut tests = cargo(&["test", "--locked", "--quiet"]);
    let tests = modules::build(tests.args(packages))?;
    modules::run(&tests, Binary::command, |_| true)?;
    let mut examples = cargo(&["test", "--locked", "--quiet", "--doc"]);
    workspace::output(examples.args(packages))?;
    let mut learner = cargo(&["check", "--locked", "--quiet"]);
    workspace::output(learner.current_dir(root.join("learner")))?;
    trains()?;
    tells()
}

/// Checks that a program that knows nothing of burn-amp trains through it.
fn trains() -> Result<()> {
    let plain = losses(None)?;
    let off = losses(Some(("BURN_AMP_PRESET", "o0")))?;
    ensure!(
        off == plain,
        "o0 has other bits than plain Burn: {off:?}, not {plain:?}"
    );
    for compute in ["bf16", "f16"] {
        let low = losses(Some(("BURN_AMP_COMPUTE", compute)))?;
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

/// Checks that a program with the crate `burn-amp` is told if the patch is missing.
fn tells() -> Result<()> {
    let patched = output("ask", Some(("BURN_AMP_COMPUTE", "bf16")))?;
    ensure!(patched == "computes in bf16\n", "with the patch: {patched}");
    let plain = output("ask", None)?;
    ensure!(
        plain.starts_with("burn-amp is not in this program"),
        "without the patch: {plain}"
    );
    println!("a program without the patch is told: {plain}");
    Ok(())
}

/// Runs `program`, and returns the bits of its losses. With a `setting` it trains through burn-amp.
fn losses(setting: Option<(&str, &str)>) -> Result<Vec<u32>> {
    let text = output("program", setting)?;
    let bits = text.lines().filter_map(|line| line.split_once(' '));
    let bits: Result<Vec<_>, _> = bits
        .map(|(_, bits)| u32::from_str_radix(bits, 16))
        .collect();
    let bits = bits.context("the program prints a loss and its bits")?;
    ensure!(!bits.is_empty(), "the program printed no loss");
    Ok(bits)
}

/// Builds a program and runs it; returns what it prints. With a `setting`, a variable of burn-amp, it is patched. Each form is
/// built in a folder of its own, since cargo writes a lock file beside the manifest.
fn output(program: &str, setting: Option<(&str, &str)>) -> Result<String> {
    let root = workspace::root().join(WORKSPACE);
    let form = if setting.is_some() { "amp" } else { "plain" };
    let folder = target().join("programs").join(form).join(program);
    fs::create_dir_all(folder.join("src"))?;
    for file in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        let from = root.join(program).join(file);
        let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        let at_home = format!("path = {:?}", root.join("burn-amp").display().to_string());
        let text = text.replace("path = \"../burn-amp\"", &at_home);
        fs::write(folder.join(file), text)?;
    }
    let mut cargo = workspace::cargo(&["run", "--quiet"]);
    cargo.current_dir(&folder).env("CARGO_TARGET_DIR", target());
    if let Some((name, value)) = setting {
        cargo.args(["--config", &patch(&root)]).env(name, value);
    }
    workspace::output(&mut cargo)
}

/// The folder of all builds for Burn 0.22.
fn target() -> PathBuf {
    workspace::root().join("target/burn-0.22/target")
}

/// The patch of a manifest, as an argument of cargo.
fn patch(root: &Path) -> String {
    let path = root.join("burn-autodiff");
    format!(
        "patch.crates-io.burn-autodiff.path={:?}",
        path.display().to_string()
    )
}
