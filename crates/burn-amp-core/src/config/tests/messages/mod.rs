mod unknown;

mod numbers;

use super::{json, message, toml};
use crate::{Class, Compute, Config, DynamicLossScale, LossScaleConfig, LossScaleMode, Op, Preset};

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(message(toml(text)), expected);
}

#[track_caller]
fn refused_json(text: &str, expected: &str) {
    assert_eq!(message(json(text)), expected);
}

#[track_caller]
fn refused_in_code(config: Config, expected: &str) {
    assert_eq!(message(config.validate().map(|()| config)), expected);
}

fn with(loss_scale: impl Into<LossScaleConfig>) -> Config {
    Config {
        loss_scale: loss_scale.into(),
        ..Config::default()
    }
}

/// The keys at the top of a file.
const KEYS: &str = "preset, compute, simulate, saved, ops, parameters, loss_scale, gradients, overflow, replay, health, report";

/// The keys of `[loss_scale]`.
const LOSS_SCALE: &str = "mode, init, search, growth_factor, backoff_factor, growth_interval, hysteresis, min, max, patience, sync, max_skips";

#[test]
fn syntax() {
    refused(
        "preset = \"o1\"\ncompute = bf16\n",
        "amp.toml:2: `bf16` needs quotes: compute = \"bf16\"",
    );
    refused(
        "compute = f16 # as Keras says it",
        "amp.toml:1: `f16` needs quotes: compute = \"f16\"",
    );
    refused(
        "[loss_scale]\ninit = 2^40\n",
        "amp.toml:2: `2^40` needs quotes: init = \"2^40\"",
    );
    refused(
        "compute = ",
        "amp.toml:1: string values must be quoted, expected literal string",
    );
    refused(
        "preset = \"o1\"\npreset = \"o1\"\n",
        "amp.toml:2: duplicate key",
    );
    refused_json("{\n\"preset\": \"o1\",\n}", "amp.json:3: trailing comma");
    refused_json("", "amp.json:1: EOF while parsing a value");
    refused_json("[]", "amp.json:1: expected an object, found an array");
    refused_json(
        "{\"loss_scale\": {\"init\": 1e400}}",
        "amp.json:1: number out of range",
    );
}

#[test]
fn duplicate_keys() {
    refused_json(
        r#"{"preset": "o1", "preset": "o0"}"#,
        "amp.json: `preset` is set twice",
    );
    refused_json(
        r#"{"loss_scale": {"init": 2, "init": 4}}"#,
        "amp.json: loss_scale: `init` is set twice",
    );
    refused_json(
        r#"{"ops": {"softmax": "low", "softmax": "low"}}"#,
        "amp.json: ops: `softmax` is set twice",
    );
}

#[test]
fn words_of_other_frameworks_get_a_hint() {
    for (theirs, ours) in [
        ("float16", "f16"),
        ("half", "f16"),
        ("bfloat16", "bf16"),
        ("float32", "f32"),
    ] {
        refused(
            &format!("compute = \"{theirs}\""),
            &format!(
                "amp.toml:1: compute: unknown compute dtype `{theirs}`; allowed: auto, bf16, f16, f32; \
                 did you mean `{ours}`?"
            ),
        );
    }
}

#[test]
fn numbers_are_shown_as_they_were_given() {
    refused(
        "loss_scale.growth_interval = 1e3",
        "amp.toml:1: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found 1e3",
    );
    refused_json(
        r#"{"loss_scale": {"growth_interval": 1000.0}}"#,
        "amp.json: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found 1000.0",
    );
    assert_eq!(
        toml("loss_scale.init = \"2^20\"")
            .unwrap()
            .loss_scale
            .rule
            .init,
        1_048_576.0
    );
    assert_eq!(
        toml("loss_scale.max = 1099511627776")
            .unwrap()
            .to_string()
            .matches("1099511627776.0")
            .count(),
        1
    );
}

#[test]
fn the_first_of_two_errors_is_reported() {
    refused(
        "zzz = 1\naaa = 1\n",
        &format!("amp.toml:1: unknown key `zzz`; allowed: {KEYS}"),
    );
}

#[test]
fn a_compute_dtype_that_the_preset_excludes() {
    const F32_ONLY: &[Compute] = &[Compute::Auto, Compute::F32];
    const LOW_ONLY: &[Compute] = &[Compute::Auto, Compute::Bf16, Compute::F16];
    for (preset, allowed) in [
        (Preset::O0, F32_ONLY),
        (Preset::O1, &Compute::ALL),
        (Preset::O2, LOW_ONLY),
        (Preset::O3, LOW_ONLY),
    ] {
        for compute in Compute::ALL {
            let config = Config {
                preset,
                compute,
                ..Config::default()
            };
            let text = format!("preset = \"{preset}\"\ncompute = \"{compute}\"\n");
            if allowed.contains(&compute) {
                assert!(config.validate().is_ok());
                assert_eq!(toml(&text).unwrap(), config);
                continue;
            }
            let names: Vec<_> = allowed.iter().map(|compute| compute.name()).collect();
            let why = format!(
                "compute: expected compute {} with preset {preset}, found compute {compute}",
                names.join(" or ")
            );
            refused(&text, &format!("amp.toml:2: {why}"));
            refused_in_code(config, &format!("code: {why}"));
        }
    }
}

#[test]
fn wrong_types() {
    refused(
        "\n\n[loss_scale]\ngrowth_interval = \"2000\"\n",
        "amp.toml:4: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found a string",
    );
    refused(
        "loss_scale.hysteresis = 2.5",
        "amp.toml:1: loss_scale.hysteresis: expected a whole number from 1 to 4294967295, found 2.5",
    );
    refused(
        "loss_scale.init = true",
        "amp.toml:1: loss_scale.init: expected a power of two from 2^-126 to 2^127, found a boolean",
    );
    refused(
        "loss_scale.growth_interval = false",
        "amp.toml:1: loss_scale.growth_interval: expected a whole number from 1 to 4294967295, found a boolean",
    );
    refused(
        "loss_scale.sync = 0",
        "amp.toml:1: loss_scale.sync: expected true or false, found 0",
    );
    refused(
        "report.output = \"\"",
        "amp.toml:1: report.output: expected the path of a file, found an empty string",
    );
    refused(
        "report.steps = -1",
        "amp.toml:1: report.steps: expected a whole number from 0 to 4294967295, found -1",
    );
    refused(
        "loss_scale.max = [1.0]",
        "amp.toml:1: loss_scale.max: expected a power of two from 2^-126 to 2^127, found an array",
    );
    refused(
        "loss_scale.min = 1979-05-27",
        "amp.toml:1: loss_scale.min: expected a power of two from 2^-126 to 2^127, found a date",
    );
    refused(
        "preset = 1",
        "amp.toml:1: preset: expected a string, found 1",
    );
    refused(
        "ops = \"low\"",
        "amp.toml:1: ops: expected a table, found a string",
    );
    refused(
        "ops.softmax = {}",
        "amp.toml:1: ops.softmax: expected a string, found a table",
    );
    refused(
        "[[loss_scale]]",
        "amp.toml:1: loss_scale: expected a table, found an array",
    );
    refused_json(
        r#"{"loss_scale": {"init": null}}"#,
        "amp.json: loss_scale.init: expected a power of two from 2^-126 to 2^127, found null",
    );
}
