//! `burn-amp check`: validates the configuration and shows the effective policy with the origin of each value.

use std::fmt::Write as _;

use burn_amp_core::{Class, Key, Op, Policy};
use serde_json::{Map, Value, json};

use crate::{
    args::CheckArgs,
    failure::Failure,
    settings::{Settings, origin},
    table::{columns, row},
};

pub fn run(args: &CheckArgs, as_json: bool) -> Result<String, Failure> {
    let settings = Settings::load(args.file.as_deref(), &args.device)?;
    Ok(match as_json {
        true => format!("{:#}\n", to_json(&settings)),
        false => text(&settings),
    })
}

fn text(settings: &Settings) -> String {
    let Settings { loaded, policies } = settings;
    let mut text = match loaded.file() {
        Some(file) => format!("{} is valid.\n\n", file_name(file)),
        None => "No amp.toml here or in a parent folder: every key has its default.\n\n".into(),
    };

    let mut rows = vec![row(["key", "value", "from"])];
    for key in Key::ALL.iter().filter(|key| !key.is_table()) {
        let from = origin(loaded.origin(key));
        rows.push(row([key.path(), &key.value(&loaded.config), &from]));
    }
    text.push_str(&columns(&rows));

    for policy in policies {
        let when = match policies.len() {
            1 => "",
            _ => ", if that is what the device accelerates",
        };
        let _ = writeln!(
            text,
            "\nPolicy in {}{when}: {}",
            policy.compute(),
            counts(policy)
        );
    }

    let changed: Vec<_> = overridden(settings).collect();
    if !changed.is_empty() {
        let mut rows = vec![row(["op", "class", "default", "from"])];
        for op in changed {
            rows.push(row([
                op.name(),
                &classes(policies, |policy| policy.class(op)),
                &classes(policies, |policy| op.class(policy.compute())),
                &settings.origin_of_op(op),
            ]));
        }
        let _ = write!(text, "\n{}", columns(&rows));
    }
    text
}

fn to_json(settings: &Settings) -> Value {
    let Settings { loaded, policies } = settings;
    let keys: Map<_, _> = Key::ALL
        .iter()
        .filter(|key| !key.is_table())
        .map(|key| {
            let value = key.value(&loaded.config);
            // Strings, numbers and booleans are written in TOML as they are in JSON.
            let value: Value = value.parse().unwrap_or(Value::String(value));
            let from = origin(loaded.origin(key));
            (key.path().into(), json!({ "value": value, "from": from }))
        })
        .collect();
    let ops: Map<_, _> = overridden(settings)
        .map(|op| {
            let class = loaded.config.ops.get(&op).map(|class| class.name());
            let from = settings.origin_of_op(op);
            (op.name().into(), json!({ "class": class, "from": from }))
        })
        .collect();
    let policies: Vec<_> = policies
        .iter()
        .map(|policy| {
            let classes = Op::ALL.iter().filter_map(|op| {
                let class = policy.class(*op)?;
                Some((op.name().to_owned(), Value::from(class.name())))
            });
            let classes: Map<_, _> = classes.collect();
            json!({ "compute": policy.compute().name(), "classes": classes })
        })
        .collect();
    json!({
        "file": loaded.file().map(file_name),
        "keys": keys,
        "ops": ops,
        "policy": policies,
    })
}

/// The ops that have an entry of their own in the configuration.
fn overridden(settings: &Settings) -> impl Iterator<Item = Op> {
    settings.loaded.config.ops.keys().copied()
}

/// The number of ops of each class.
fn counts(policy: &Policy) -> String {
    if !policy.compute().is_low() {
        return "every op runs in the dtype of its operands, as without burn-amp".into();
    }
    let count = |class| {
        let ops = Op::ALL.iter();
        ops.filter(|op| policy.class(**op) == Some(class)).count()
    };
    let counts = Class::ALL.map(|class| format!("{} {class}", count(class)));
    format!("{} (`burn-amp ops` lists them)", counts.join(", "))
}

/// The classes of an op under several policies: one, if they are the same.
pub fn classes(policies: &[Policy], class: impl Fn(&Policy) -> Option<Class>) -> String {
    let mut names: Vec<_> = policies
        .iter()
        .map(|policy| match class(policy) {
            Some(class) => class.name(),
            None => "none",
        })
        .collect();
    names.dedup();
    match names[..] {
        [name] => name.into(),
        _ => policies
            .iter()
            .zip(names)
            .map(|(policy, name)| format!("{name} in {}", policy.compute()))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn file_name(file: &std::path::Path) -> String {
    let source = burn_amp_core::Source::File {
        file: file.into(),
        line: None,
    };
    origin(Some(&source))
}
