//! `burn-amp ops`: lists ops with the classes that decide their precision.

use burn_amp_core::{Op, Policy};
use serde_json::{Value, json};

use crate::{
    args::OpsArgs,
    failure::Failure,
    settings::Settings,
    table::{columns, row},
};

pub fn run(args: &OpsArgs, as_json: bool) -> Result<String, Failure> {
    let settings = match args.defaults {
        true => Settings::defaults(&args.device),
        false => Settings::load(None, &args.device)?,
    };
    let ops: Vec<_> = Op::ALL
        .iter()
        .copied()
        .filter(|op| is_asked_for(*op, args, &settings))
        .collect();
    if ops.is_empty() && args.name.is_some() {
        return Err(Failure::Wrong(nothing(args)));
    }
    Ok(match as_json {
        true => format!("{:#}\n", to_json(&ops, &settings)),
        false => text(&ops, &settings),
    })
}

fn is_asked_for(op: Op, args: &OpsArgs, settings: &Settings) -> bool {
    let policies = &settings.policies;
    let mut classes = policies.iter().filter_map(|policy| policy.class(op));
    let has_class = match args.class {
        Some(asked) => classes.any(|class| class == asked),
        None => classes.next().is_some(),
    };
    let contains = |text: &str, part: &Option<String>| {
        let part = part.as_deref().unwrap_or_default().to_lowercase();
        text.to_lowercase().contains(&part)
    };
    has_class
        && contains(op.name(), &args.name)
        && contains(op.trait_name(), &args.of_trait)
        && (!args.changed || settings.changes(op))
}

/// Why no op is listed.
fn nothing(args: &OpsArgs) -> String {
    let name = args.name.as_deref().unwrap_or_default();
    let hint = Op::nearest(name).map_or_else(String::new, |op| format!("; did you mean `{op}`?"));
    format!("no op with a class that was asked for has `{name}` in its name{hint}")
}

fn text(ops: &[Op], settings: &Settings) -> String {
    let policies = &settings.policies;
    let mut header = row(["op", "trait"]);
    header.extend(policies.iter().map(|policy| policy.compute().to_string()));
    header.push("from".into());
    let mut rows = vec![header];
    for op in ops {
        let mut cells = row([op.name(), op.trait_name()]);
        cells.extend(policies.iter().map(|policy| class(policy, *op).to_owned()));
        cells.push(settings.origin_of_op(*op));
        rows.push(cells);
    }
    format!("{}\n{}\n", columns(&rows).trim_end(), summary(ops.len()))
}

fn summary(ops: usize) -> String {
    match ops {
        1 => "\n1 op".into(),
        _ => format!("\n{ops} ops"),
    }
}

fn to_json(ops: &[Op], settings: &Settings) -> Value {
    let ops = ops.iter().map(|op| {
        let classes = settings.policies.iter().map(|policy| {
            let compute = policy.compute().name().to_owned();
            (compute, Value::from(class(policy, *op)))
        });
        json!({
            "op": op.name(),
            "trait": op.trait_name(),
            "classes": classes.collect::<serde_json::Map<_, _>>(),
            "from": settings.origin_of_op(*op),
        })
    });
    ops.collect()
}

fn class(policy: &Policy, op: Op) -> &'static str {
    policy.class(op).map_or("none", |class| class.name())
}
