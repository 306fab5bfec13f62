use std::path::Path;

use super::message;
use crate::{
    Class, Compute, Config, ConfigError, DynamicLossScale, GradientsConfig, HealthConfig,
    LossScaleConfig, LossScaleMode, Op, OverflowConfig, ParamPattern, Preset, ReplayConfig,
    ReportConfig, Saved, formats::Simulate, overflow::Locate,
};

/// Loads with variables only: no folder of the repository's ancestors may have a say.
fn load(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().last();
    let variables = variables
        .iter()
        .map(|(name, text)| (name.to_string(), text.to_string()));
    Config::load_from(root.expect("a path is an ancestor of itself"), variables)
}

#[track_caller]
fn refused(name: &str, text: &str, expected: &str) {
    assert_eq!(message(load(&[(name, text)])), expected);
}

#[test]
fn each_key_has_a_variable() {
    let config = load(&[
        ("BURN_AMP_PRESET", "o1"),
        ("BURN_AMP_COMPUTE", "f16"),
        ("BURN_AMP_SIMULATE", "mxfp8"),
        ("BURN_AMP_SAVED", "8bit"),
        ("BURN_AMP_OPS", "float_exp=keep, softmax = low"),
        ("BURN_AMP_PARAMETERS", "head.*=full, *.norm.* = keep"),
        ("BURN_AMP_LOSS_SCALE_MODE", "dynamic"),
        ("BURN_AMP_LOSS_SCALE_INIT", "1024"),
        ("BURN_AMP_LOSS_SCALE_SEARCH", "false"),
        ("BURN_AMP_LOSS_SCALE_GROWTH_FACTOR", "4.0"),
        ("BURN_AMP_LOSS_SCALE_BACKOFF_FACTOR", "0.25"),
        ("BURN_AMP_LOSS_SCALE_GROWTH_INTERVAL", "100"),
        ("BURN_AMP_LOSS_SCALE_HYSTERESIS", "2"),
        ("BURN_AMP_LOSS_SCALE_MIN", "0.5"),
        ("BURN_AMP_LOSS_SCALE_MAX", "1.7014118e38"),
        ("BURN_AMP_LOSS_SCALE_PATIENCE", "3"),
        ("BURN_AMP_LOSS_SCALE_SYNC", "false"),
        ("BURN_AMP_LOSS_SCALE_MAX_SKIPS", "5"),
        ("BURN_AMP_GRADIENTS_MAX_NORM_RATIO", "8"),
        ("BURN_AMP_OVERFLOW_LOCATE", "on_skip"),
        ("BURN_AMP_HEALTH_EVERY", "20"),
        ("BURN_AMP_REPLAY_OUTPUT", "step.safetensors"),
        ("BURN_AMP_REPLAY_STEP", "5"),
        ("BURN_AMP_REPLAY_WITH_VALUES", "false"),
        ("BURN_AMP_REPORT_STEPS", "10"),
        ("BURN_AMP_REPORT_OUTPUT", "runs/1"),
        ("BURN_AMP_REPORT_SAMPLES", "true"),
        ("PATH", "/bin"),
        ("BURN", "AMP"),
    ]);
    let expected = Config {
        preset: Preset::O1,
        compute: Compute::F16,
        simulate: Simulate::Mxfp8,
        saved: Saved::EightBits,
        ops: [(Op::float_exp, Class::Keep), (Op::softmax, Class::Low)].into(),
        parameters: [("head.*", Class::Full), ("*.norm.*", Class::Keep)]
            .map(|(pattern, class)| (ParamPattern::new(pattern).unwrap(), class))
            .into(),
        loss_scale: LossScaleConfig {
            mode: LossScaleMode::Dynamic,
            rule: DynamicLossScale {
                init: 1024.0,
                search: false,
                growth_factor: 4.0,
                backoff_factor: 0.25,
                growth_interval: 100,
                hysteresis: 2,
                min: 0.5,
                max: 2f32.powi(127),
                patience: 3,
            },
            sync: false,
            max_skips: 5,
        },
        gradients: GradientsConfig { max_norm_ratio: 8 },
        overflow: OverflowConfig {
            locate: Locate::OnSkip,
        },
        replay: ReplayConfig {
            output: "step.safetensors".into(),
            step: 5,
            with_values: false,
        },
        health: HealthConfig { every: 20 },
        report: ReportConfig {
            steps: 10,
            output: "runs/1".into(),
            samples: true,
        },
    };
    assert_eq!(config.unwrap(), expected);
}

#[test]
fn unknown_variables() {
    let allowed = "allowed: BURN_AMP_COMPUTE, BURN_AMP_CONFIG, \
                   BURN_AMP_GRADIENTS_MAX_NORM_RATIO, BURN_AMP_HEALTH_EVERY, BURN_AMP_LOSS_SCALE_BACKOFF_FACTOR, \
                   BURN_AMP_LOSS_SCALE_GROWTH_FACTOR, BURN_AMP_LOSS_SCALE_GROWTH_INTERVAL, \
                   BURN_AMP_LOSS_SCALE_HYSTERESIS, BURN_AMP_LOSS_SCALE_INIT, BURN_AMP_LOSS_SCALE_MAX, \
                   BURN_AMP_LOSS_SCALE_MAX_SKIPS, \
                   BURN_AMP_LOSS_SCALE_MIN, BURN_AMP_LOSS_SCALE_MODE, BURN_AMP_LOSS_SCALE_PATIENCE, \
                   BURN_AMP_LOSS_SCALE_SEARCH, BURN_AMP_LOSS_SCALE_SYNC, BURN_AMP_OPS, \
                   BURN_AMP_OVERFLOW_LOCATE, BURN_AMP_PARAMETERS, BURN_AMP_PRESET, \
                   BURN_AMP_REPLAY_OUTPUT, BURN_AMP_REPLAY_STEP, BURN_AMP_REPLAY_WITH_VALUES, BURN_AMP_REPORT_OUTPUT, BURN_AMP_REPORT_SAMPLES, BURN_AMP_REPORT_STEPS, BURN_AMP_SAVED, BURN_AMP_SIMULATE";
    refused(
        "BURN_AMP_PREST",
        "o1",
        &format!(
            "environment: unknown variable `BURN_AMP_PREST`; {allowed}; did you mean `BURN_AMP_PRESET`?"
        ),
    );
    refused(
        "BURN_AMP_LOSS_SCALE",
        "128",
        &format!(
            "environment: unknown variable `BURN_AMP_LOSS_SCALE`; {allowed}; did you mean `BURN_AMP_LOSS_SCALE_INIT`?"
        ),
    );
    refused(
        "BURN_AMP_INIT",
        "128",
        &format!(
            "environment: unknown variable `BURN_AMP_INIT`; {allowed}; did you mean `BURN_AMP_LOSS_SCALE_INIT`?"
        ),
    );
    refused(
        "BURN_AMP_XYZ",
        "",
        &format!("environment: unknown variable `BURN_AMP_XYZ`; {allowed}"),
    );
}

#[test]
fn bad_values_name_the_variable() {
    refused(
        "BURN_AMP_COMPUTE",
        "bf61",
        "BURN_AMP_COMPUTE: unknown compute dtype `bf61`; allowed: auto, bf16, f16, f32; did you mean `bf16`?",
    );
    refused(
        "BURN_AMP_PRESET",
        "",
        "BURN_AMP_PRESET: unknown preset ``; allowed: o0, o1, o2, o3",
    );
    refused(
        "BURN_AMP_LOSS_SCALE_INIT",
        "much",
        "BURN_AMP_LOSS_SCALE_INIT: expected a power of two from 2^-126 to 2^127, found `much`",
    );
    assert_eq!(
        load(&[("BURN_AMP_LOSS_SCALE_MAX", "2^40")])
            .unwrap()
            .loss_scale
            .rule
            .max,
        2f32.powi(40)
    );
    refused(
        "BURN_AMP_LOSS_SCALE_INIT",
        "2^x",
        "BURN_AMP_LOSS_SCALE_INIT: expected a power of two from 2^-126 to 2^127, found `2^x`",
    );
    refused(
        "BURN_AMP_LOSS_SCALE_INIT",
        "inf",
        "BURN_AMP_LOSS_SCALE_INIT: expected a power of two from 2^-126 to 2^127, found `inf`",
    );
    refused(
        "BURN_AMP_LOSS_SCALE_MAX",
        "1000",
        "BURN_AMP_LOSS_SCALE_MAX: expected a power of two from 2^-126 to 2^127, found `1000`; the nearest is 1024",
    );
    refused(
        "BURN_AMP_LOSS_SCALE_MAX",
        "1024",
        "BURN_AMP_LOSS_SCALE_MAX: expected loss_scale.min <= loss_scale.init <= loss_scale.max, \
         found 5.9604645e-8 <= 65536 <= 1024",
    );
    refused(
        "BURN_AMP_LOSS_SCALE_HYSTERESIS",
        "1.0",
        "BURN_AMP_LOSS_SCALE_HYSTERESIS: expected a whole number from 1 to 4294967295, found `1.0`",
    );
}

#[test]
fn bad_overrides() {
    refused(
        "BURN_AMP_OPS",
        "softmax",
        "BURN_AMP_OPS: expected a list like `float_exp=full,softmax=keep`, found `softmax`",
    );
    refused(
        "BURN_AMP_OPS",
        "softmx=full",
        "BURN_AMP_OPS: unknown op `softmx`; did you mean `softmax`?",
    );
    refused(
        "BURN_AMP_OPS",
        "softmax=full,float_cast=low",
        "BURN_AMP_OPS: `float_cast` cannot be given a class: it does no float arithmetic, or its caller chooses the dtype",
    );
    refused(
        "BURN_AMP_OPS",
        "softmax=wide",
        "BURN_AMP_OPS: unknown class `wide`; allowed: low, full, internal, widest, keep",
    );
    refused(
        "BURN_AMP_OPS",
        "softmax=full,softmax=low",
        "BURN_AMP_OPS: `softmax` is set twice",
    );
    assert_eq!(load(&[("BURN_AMP_OPS", "")]).unwrap(), Config::default());
    refused(
        "BURN_AMP_PARAMETERS",
        "head *=full",
        "BURN_AMP_PARAMETERS: expected a pattern of parameter names such as `head.*`, without spaces, `=` and `,`, \
         found `head *`",
    );
    refused(
        "BURN_AMP_PARAMETERS",
        "head",
        "BURN_AMP_PARAMETERS: expected a list like `head.*=full,*.norm.*=keep`, found `head`",
    );
}

#[test]
fn of_two_values_that_contradict_the_one_set_last_is_named() {
    assert_eq!(
        message(load(&[
            ("BURN_AMP_PRESET", "o0"),
            ("BURN_AMP_COMPUTE", "f16")
        ])),
        "BURN_AMP_COMPUTE: expected compute auto or f32 with preset o0, found compute f16"
    );
    let variables = [("BURN_AMP_PRESET".to_owned(), "o0".to_owned())];
    assert_eq!(
        message(super::files::loaded("compute = \"f16\"", variables.into())),
        "BURN_AMP_PRESET: expected compute auto or f32 with preset o0, found compute f16"
    );
    refused(
        "BURN_AMP_SIMULATE",
        "mxfp4",
        "BURN_AMP_SIMULATE: unknown recipe `mxfp4`; allowed: off, fp8, fp8-tensor, fp8-row, fp8-block, mxfp8, mxfp8-floor, \
         nvfp4, nvfp4-sr, int8-row; did you mean `mxfp8`?",
    );
    let of =
        |key: &str, value: &str| message(load(&[("BURN_AMP_SIMULATE", "mxfp8"), (key, value)]));
    assert_eq!(
        of("BURN_AMP_PRESET", "o0"),
        "BURN_AMP_SIMULATE: expected preset o1 or o2 or o3 with simulate mxfp8, found preset o0"
    );
    assert_eq!(
        of("BURN_AMP_COMPUTE", "f32"),
        "BURN_AMP_SIMULATE: expected compute auto or bf16 or f16 with simulate mxfp8, found compute f32"
    );
}
