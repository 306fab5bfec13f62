use std::path::Path;

use proptest::{collection::btree_map, prelude::*, sample::select};

use super::{json, toml};
use crate::{Class, Compute, Config, Dtype, LossScaleConfig, LossScaleMode, Op, Preset};

fn power(exponents: std::ops::RangeInclusive<i32>) -> impl Strategy<Value = f32> {
    exponents.prop_map(|e| 2f64.powi(e) as f32)
}

fn any_loss_scale() -> impl Strategy<Value = LossScaleConfig> {
    (
        select(LossScaleMode::ALL),
        prop::array::uniform3(power(-126..=127)),
        power(1..=127),
        power(-126..=-1),
        1u32..,
        1u32..,
        any::<bool>(),
    )
        .prop_map(
            |(
                mode,
                mut scales,
                growth_factor,
                backoff_factor,
                growth_interval,
                hysteresis,
                sync,
            )| {
                scales.sort_by(f32::total_cmp);
                let [min, init, max] = scales;
                LossScaleConfig {
                    mode,
                    init,
                    growth_factor,
                    backoff_factor,
                    growth_interval,
                    hysteresis,
                    min,
                    max,
                    sync,
                }
            },
        )
}

fn any_ops() -> impl Strategy<Value = std::collections::BTreeMap<Op, Class>> {
    let ops: Vec<_> = Op::ALL
        .iter()
        .copied()
        .filter(|op| op.class(Dtype::F16).is_some())
        .collect();
    btree_map(select(ops), select(Class::ALL.as_slice()), 0..8)
}

fn any_config() -> impl Strategy<Value = Config> {
    let preset_and_compute = prop_oneof![
        (
            Just(Preset::O0),
            select([Compute::Auto, Compute::F32].as_slice())
        ),
        (Just(Preset::O1), select(Compute::ALL)),
        (
            select([Preset::O2, Preset::O3].as_slice()),
            select([Compute::Auto, Compute::Bf16, Compute::F16].as_slice())
        ),
    ];
    (preset_and_compute, any_ops(), any_loss_scale()).prop_map(
        |((preset, compute), ops, loss_scale)| Config {
            preset,
            compute,
            ops,
            loss_scale,
        },
    )
}

/// The same keys as JSON.
fn to_json(config: &Config) -> String {
    let ops: Vec<_> = config
        .ops
        .iter()
        .map(|(op, class)| format!("\"{op}\": \"{class}\""))
        .collect();
    let LossScaleConfig {
        mode,
        init,
        growth_factor,
        backoff_factor,
        growth_interval,
        hysteresis,
        min,
        max,
        sync,
    } = config.loss_scale;
    format!(
        r#"{{"preset": "{}", "compute": "{}", "ops": {{{}}}, "loss_scale": {{
            "mode": "{mode}", "init": {init:?}, "growth_factor": {growth_factor:?},
            "backoff_factor": {backoff_factor:?}, "growth_interval": {growth_interval}, "hysteresis": {hysteresis},
            "min": {min:?}, "max": {max:?}, "sync": {sync} }}}}"#,
        config.preset,
        config.compute,
        ops.join(", "),
    )
}

/// The same keys as variables.
fn to_variables(config: &Config) -> Vec<(String, String)> {
    let ops: Vec<_> = config
        .ops
        .iter()
        .map(|(op, class)| format!("{op}={class}"))
        .collect();
    let LossScaleConfig {
        mode,
        init,
        growth_factor,
        backoff_factor,
        growth_interval,
        hysteresis,
        min,
        max,
        sync,
    } = config.loss_scale;
    [
        ("PRESET", config.preset.to_string()),
        ("COMPUTE", config.compute.to_string()),
        ("OPS", ops.join(",")),
        ("LOSS_SCALE_MODE", mode.to_string()),
        ("LOSS_SCALE_INIT", init.to_string()),
        ("LOSS_SCALE_GROWTH_FACTOR", growth_factor.to_string()),
        ("LOSS_SCALE_BACKOFF_FACTOR", backoff_factor.to_string()),
        ("LOSS_SCALE_GROWTH_INTERVAL", growth_interval.to_string()),
        ("LOSS_SCALE_HYSTERESIS", hysteresis.to_string()),
        ("LOSS_SCALE_MIN", min.to_string()),
        ("LOSS_SCALE_MAX", max.to_string()),
        ("LOSS_SCALE_SYNC", sync.to_string()),
    ]
    .map(|(name, text)| (format!("BURN_AMP_{name}"), text))
    .into()
}

/// Text that is nearly a configuration.
fn any_text() -> impl Strategy<Value = String> {
    let piece = select(
        [
            "preset",
            "compute",
            "ops",
            "loss_scale",
            "init",
            "softmax",
            "\"o1\"",
            "\"full\"",
            "=",
            ".",
            "\n",
            " ",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "\"",
            "'",
            "#",
            "1",
            "-",
            "e9",
            "0x",
            "inf",
            "nan",
            "true",
            "null",
            "\u{feff}",
            "é",
            "\u{0}",
        ]
        .as_slice(),
    );
    prop_oneof![
        any::<String>(),
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat()),
    ]
}

proptest! {
    #[test]
    fn what_is_printed_parses_back(config in any_config()) {
        prop_assert!(config.validate().is_ok());
        prop_assert_eq!(&toml(&config.to_string()).unwrap(), &config);
    }

    #[test]
    fn toml_json_and_variables_say_the_same(config in any_config()) {
        prop_assert_eq!(&json(&to_json(&config)).unwrap(), &config);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().last().unwrap();
        prop_assert_eq!(&Config::load_from(root, to_variables(&config)).unwrap(), &config);
    }

    #[test]
    fn no_text_panics(text in any_text(), name in "[A-Z_]{0,8}") {
        let _ = toml(&text);
        let _ = json(&text);
        for name in [format!("BURN_AMP_{name}"), "BURN_AMP_OPS".into(), "BURN_AMP_LOSS_SCALE_INIT".into()] {
            let _ = Config::load_from(Path::new("/"), [(name, text.clone())]);
        }
    }

    #[test]
    fn variables_stand_above_the_file_and_the_file_above_the_defaults(
        file in any_config(),
        variables in any_config(),
        chosen in prop::collection::vec(any::<bool>(), 12),
    ) {
        let all = to_variables(&variables);
        let given: Vec<_> = all.into_iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(v, _)| v).collect();
        let pick = |i: usize| chosen[i];
        let (f, v) = (&file.loss_scale, &variables.loss_scale);
        let mut ops = file.ops.clone();
        if pick(2) {
            ops.extend(&variables.ops);
        }
        let expected = Config {
            preset: if pick(0) { variables.preset } else { file.preset },
            compute: if pick(1) { variables.compute } else { file.compute },
            ops,
            loss_scale: LossScaleConfig {
                mode: if pick(3) { v.mode } else { f.mode },
                init: if pick(4) { v.init } else { f.init },
                growth_factor: if pick(5) { v.growth_factor } else { f.growth_factor },
                backoff_factor: if pick(6) { v.backoff_factor } else { f.backoff_factor },
                growth_interval: if pick(7) { v.growth_interval } else { f.growth_interval },
                hysteresis: if pick(8) { v.hysteresis } else { f.hysteresis },
                min: if pick(9) { v.min } else { f.min },
                max: if pick(10) { v.max } else { f.max },
                sync: if pick(11) { v.sync } else { f.sync },
            },
        };
        let loaded = super::files::loaded(&file.to_string(), given);
        match expected.validate() {
            Ok(()) => prop_assert_eq!(loaded.unwrap(), expected),
            Err(_) => prop_assert!(loaded.is_err()),
        }
    }
}

#[test]
fn every_power_of_two_is_read_and_printed_exactly() {
    for e in -126..=127 {
        let scale = 2f64.powi(e) as f32;
        let config = Config {
            loss_scale: LossScaleConfig {
                init: scale,
                min: scale,
                max: scale,
                ..LossScaleConfig::default()
            },
            ..Config::default()
        };
        assert_eq!(toml(&config.to_string()).unwrap(), config, "2^{e}");
    }
}
