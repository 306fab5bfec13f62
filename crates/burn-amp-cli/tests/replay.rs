//! `burn-amp replay` on a step that overflowed, compared with the files in `snapshots`.
//!
//! `BLESS=1 cargo test -p burn-amp-cli` writes the files anew; read the difference before you commit it.

#![cfg(feature = "replay")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use burn::{backend::Flex, tensor::Tensor};
use burn_amp::{
    Amp, Autodiff,
    config::{
        Compute, Config, DynamicLossScale, Locate, LossScaleConfig, LossScaleMode, OverflowConfig,
        ReplayConfig,
    },
};
use tempfile::TempDir;

type B = Autodiff<Amp<Flex>>;

/// Runs a step in which a product overflows in F16, and returns its file.
fn step(folder: &TempDir) -> PathBuf {
    let device = Default::default();
    let file = folder.path().join("step.safetensors");
    let config = Config {
        compute: Compute::F16,
        loss_scale: LossScaleConfig {
            mode: LossScaleMode::Static,
            rule: DynamicLossScale {
                init: 1024.0,
                ..DynamicLossScale::default()
            },
            ..LossScaleConfig::default()
        },
        overflow: OverflowConfig {
            locate: Locate::Always,
        },
        replay: ReplayConfig {
            output: file.display().to_string(),
            ..ReplayConfig::default()
        },
        ..Config::default()
    };
    burn_amp::configure::<B>(&device, config).unwrap();
    let weight = Tensor::<B, 2>::full([4, 4], 200.0, &device).require_grad();
    let score = weight.clone().matmul(weight) * 0.001;
    let mask = score.clone().lower_elem(0.0);
    score.mask_fill(mask, 0.0).exp().mean().backward();
    file
}

fn burn_amp(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_burn-amp"));
    command.args(args).output().unwrap()
}

/// Compares a text with a file of this test.
fn assert_snapshot(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{name}; BLESS=1 writes it anew");
}

#[test]
fn a_step_is_shown_in_three_forms_and_a_part_of_its_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = step(&folder);
    let path = file.to_str().unwrap();

    let shown = burn_amp(&["replay", path]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{text}");
    assert_snapshot(
        "replay.txt",
        &text.replace(env!("CARGO_PKG_VERSION"), "VERSION"),
    );

    let json = burn_amp(&["replay", path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        json["same_bits"]["results"],
        json["same_bits"]["of_results"]
    );
    assert_eq!(json["recorded"]["cause"]["op"], "float_matmul");
    assert_eq!(json["f64"]["cause"]["op"], serde_json::Value::Null);

    let bytes = fs::read(&file).unwrap();
    let same = burn_amp(&["replay", path, "--against", path]);
    assert_eq!(
        (same.status.code(), &*same.stdout),
        (Some(0), &b"Every call has the same bits.\n"[..])
    );
    for (args, message) in [
        (
            &["--against", path, "--on", "flex"][..],
            "two files are compared bit for bit",
        ),
        (
            &["--program", "main.rs"],
            "required arguments were not provided",
        ),
        (&["--gradients", "--on", "flex"], "cannot be used with"),
        (&["--recipes", "--against", "f32"], "cannot be used with"),
        (&["--recipes", "--gradients"], "cannot be used with"),
        (&["--simulate", "mxfp4"], "allowed: off, fp8, fp8-tensor"),
    ] {
        let wrong = burn_amp(&[&["replay", path], args].concat());
        assert_eq!(wrong.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8(wrong.stderr).unwrap();
        assert!(text.contains(message), "{args:?}: {text}");
    }
    let losses = burn_amp(&["replay", path, "--recipes", "--all"]);
    assert_snapshot(
        "replay_recipes.txt",
        &String::from_utf8(losses.stdout).unwrap(),
    );
    let proposed = burn_amp(&["replay", path, "--simulate", "nvfp4"]);
    let proposed = String::from_utf8(proposed.stdout).unwrap();
    assert_snapshot("replay_simulate.txt", &proposed);
    let json = burn_amp(&["replay", path, "--simulate", "nvfp4", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["toml"], proposed);
    let losses = burn_amp(&["replay", path, "--recipes", "--json"]);
    let losses: serde_json::Value = serde_json::from_slice(&losses.stdout).unwrap();
    assert_eq!(losses["others"], 1, "its gradient is not finite in f32");
    let ranges = burn_amp(&["replay", path, "--gradients"]);
    let text = String::from_utf8(ranges.stdout).unwrap();
    assert!(text.contains("gradients at loss scale 2^10"), "{text}");
    let beside = burn_amp(&["replay", path, "--against", "flex"]);
    let text = String::from_utf8(beside.stdout).unwrap();
    assert_snapshot("replay_against.txt", &text);
    assert_eq!(beside.status.code(), Some(0), "{text}");
    let other = burn_amp(&["replay", path, "--on", "cuda"]);
    assert_eq!(other.status.code(), Some(2));
    let text = String::from_utf8(other.stderr).unwrap();
    assert!(
        text.contains("--on cuda: this `burn-amp` was built without cuda"),
        "{text}"
    );

    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let cut = burn_amp(&["replay", path]);
    assert_eq!(cut.status.code(), Some(2));
    let text = String::from_utf8(cut.stderr).unwrap();
    assert_snapshot("replay_cut.txt", &text.replace(path, "step.safetensors"));
}
