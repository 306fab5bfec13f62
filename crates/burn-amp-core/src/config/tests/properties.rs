use std::path::Path;

use proptest::{collection::vec, prelude::*, sample::select};

use super::{json, toml};
use crate::{
    Class, Config, DynamicLossScale, Op,
    config::{
        Key, Place, Source,
        tree::{Entry, Value},
    },
};

/// Every value of a large pool that a key takes.
fn values(key: &Key) -> Vec<Value> {
    let names = key.names().iter().map(|(name, _)| (*name).to_owned());
    let powers = (-126..=127).map(|e| Value::Float(2f64.powi(e)));
    let integers = [1, 2, 2000, u32::MAX].map(|n| Value::Integer(n.into()));
    let classes = Op::ALL.iter().zip(Class::ALL.into_iter().cycle());
    let tables = classes.map(|(op, class)| {
        let entry = |op: &Op| Entry {
            key: op.to_string(),
            value: Value::String(class.to_string()),
            line: None,
        };
        Value::Table(vec![entry(&Op::softmax), entry(op)])
    });
    let paths = ["report", "runs/ü 1", "C:\\a\"b"].map(str::to_owned);
    let mut pool: Vec<_> = names
        .chain(paths)
        .map(Value::String)
        .chain(powers)
        .chain(tables)
        .collect();
    pool.extend(integers);
    pool.extend([
        Value::Boolean(false),
        Value::Boolean(true),
        Value::Table(Vec::new()),
    ]);
    pool.retain(|value| set(key, &mut Config::default(), value));
    assert!(pool.len() > 1, "the pool has no values for {}", key.path());
    pool
}

fn set(key: &Key, config: &mut Config, value: &Value) -> bool {
    let place = Place::new(Source::Code, key.path());
    key.set(config, value, &place).is_ok()
}

/// A configuration that is valid, with any value for every key.
fn any_config() -> impl Strategy<Value = Config> {
    let values: Vec<_> = Key::ALL.iter().map(|key| select(values(key))).collect();
    values.prop_filter_map("keys contradict each other", |values| {
        let mut config = Config::default();
        for (key, value) in Key::ALL.iter().zip(&values) {
            assert!(set(key, &mut config, value), "{}", key.path());
        }
        config.validate().is_ok().then_some(config)
    })
}

/// The same values as JSON.
fn to_json(config: &Config) -> String {
    let mut root = serde_json::Map::new();
    for key in Key::ALL {
        let (table, name) = key.table_and_name();
        let table = match table {
            "" => &mut root,
            table => {
                let table = root.entry(table).or_insert_with(|| serde_json::json!({}));
                table.as_object_mut().unwrap()
            }
        };
        table.insert(name.into(), json_value(&key.get(config)));
    }
    serde_json::Value::Object(root).to_string()
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Table(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json_value(&entry.value)))
            .collect(),
        Value::String(text) | Value::Text(text) => text.as_str().into(),
        Value::Integer(x) => i64::try_from(*x).unwrap().into(),
        Value::Float(x) | Value::Written(x, _) => (*x).into(),
        Value::Boolean(x) => (*x).into(),
        Value::Other(kind) => panic!("no key takes {kind}"),
    }
}

/// The same values as variables, in the order of the keys.
fn to_variables(config: &Config) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_toml(),
    };
    let variable = |key: &Key| match key.get(config) {
        Value::Table(entries) => {
            let items = entries
                .iter()
                .map(|entry| format!("{}={}", entry.key, text(&entry.value)));
            (key.variable(), items.collect::<Vec<_>>().join(","))
        }
        value => (key.variable(), text(&value)),
    };
    Key::ALL.iter().map(variable).collect()
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
    fn variables_override_the_file_and_the_file_overrides_the_defaults(
        file in any_config(),
        variables in any_config(),
        chosen in vec(any::<bool>(), Key::ALL.len()),
    ) {
        let all = Key::ALL.iter().zip(to_variables(&variables)).zip(chosen);
        let chosen: Vec<_> = all.filter_map(|(variable, chosen)| chosen.then_some(variable)).collect();
        let mut expected = file.clone();
        for (key, _) in &chosen {
            prop_assert!(set(key, &mut expected, &key.get(&variables)));
        }
        let variables = chosen.into_iter().map(|(_, variable)| variable).collect();
        let loaded = super::files::loaded(&file.to_string(), variables);
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
        let rule = DynamicLossScale {
            init: scale,
            min: scale,
            max: scale,
            ..DynamicLossScale::default()
        };
        let config = Config {
            loss_scale: rule.into(),
            ..Config::default()
        };
        assert_eq!(toml(&config.to_string()).unwrap(), config, "2^{e}");
    }
}
