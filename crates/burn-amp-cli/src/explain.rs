//! `burn-amp explain`: in which precision an op runs, why, and how to change it.

use std::fmt::Write as _;

use burn_amp_core::{Class, Op, Policy};
use serde_json::{Value, json};

use crate::{
    args::ExplainArgs,
    casts::{Case, cases, shape},
    check::classes,
    failure::Failure,
    settings::Settings,
    table::{columns, row},
};

const NO_CLASS: &str = "\
It has no class: it does no float arithmetic, or its caller chooses the dtype. burn-amp passes it on as it is.";

pub fn run(args: &ExplainArgs, as_json: bool) -> Result<String, Failure> {
    let op = find(&args.op)?;
    let settings = Settings::load(None, &args.device)?;
    Ok(match as_json {
        true => format!("{:#}\n", to_json(op, &settings)),
        false => text(op, &settings),
    })
}

/// The op of a name; `matmul` is `float_matmul`.
fn find(name: &str) -> Result<Op, Failure> {
    let float = format!("float_{name}");
    if let Ok(op) = name.parse().or_else(|()| float.parse()) {
        return Ok(op);
    }
    let hint = match Op::nearest(name) {
        Some(op) => format!("; did you mean `{op}`?"),
        None => "; `burn-amp ops` lists them".into(),
    };
    Err(Failure::Wrong(format!("unknown op `{name}`{hint}")))
}

fn text(op: Op, settings: &Settings) -> String {
    let policies = &settings.policies;
    let mut text = format!("{op}  {}  {}\n\n", op.trait_name(), shape(op));
    if policies.iter().all(|policy| policy.class(op).is_none()) {
        let _ = writeln!(text, "{NO_CLASS}");
        return text;
    }

    let in_force = classes(policies, |policy| policy.class(op));
    let default = classes(policies, |policy| op.class(policy.compute()));
    let _ = write!(
        text,
        "class: {in_force}, from {}",
        settings.origin_of_op(op)
    );
    match in_force == default {
        true => text.push('\n'),
        false => {
            let _ = writeln!(text, "; the default is {default}");
        }
    }
    let mut used: Vec<_> = policies
        .iter()
        .filter_map(|policy| policy.class(op))
        .collect();
    used.dedup();
    for class in used {
        let _ = writeln!(text, "  {class}: {}", class.meaning());
    }

    for policy in policies {
        let cases = cases(op, policy);
        if !cases.is_empty() {
            let _ = write!(text, "\n{}", cases_text(&cases));
        }
    }

    if let Some(reason) = op.class_reason() {
        let _ = writeln!(text, "\nWhy: {reason}.");
    }
    if let Some(rule) = op.by_rule() {
        let _ = writeln!(text, "\nburn-amp has a rule for it: {rule}.");
    }
    if let Some(reason) = op.by_hand() {
        let _ = writeln!(
            text,
            "\nburn-amp has a function of its own for it: {reason}."
        );
    }
    let _ = write!(text, "\n{}", how_to_change(op, policies));
    text
}

fn cases_text(cases: &[Case]) -> String {
    let mut rows = vec![row([
        "operands stored in",
        "computed in",
        "result stored in",
    ])];
    for case in cases {
        let operands: Vec<_> = case.operands.iter().map(|dtype| dtype.name()).collect();
        rows.push(row([
            &operands.join(", "),
            case.computes_in.name(),
            case.result.map_or("no float", |dtype| dtype.name()),
        ]));
    }
    columns(&rows)
}

/// The ways to change the class, with one that is not in force.
fn how_to_change(op: Op, policies: &[Policy]) -> String {
    let in_force = policies.first().and_then(|policy| policy.class(op));
    let other = match in_force {
        Some(Class::Full) => Class::Low,
        _ => Class::Full,
    };
    format!(
        "To change it:\n  \
         all calls    [ops]\n               {op} = \"{other}\"        in amp.toml, or BURN_AMP_OPS={op}={other}\n  \
         some calls   burn_amp::full_precision(|| …)  runs a block of code in f32\n"
    )
}

fn to_json(op: Op, settings: &Settings) -> Value {
    let policies = settings.policies.iter().map(|policy| {
        let cases = cases(op, policy).into_iter().map(|case| {
            let operands: Vec<_> = case.operands.iter().map(|dtype| dtype.name()).collect();
            json!({
                "operands": operands,
                "computes_in": case.computes_in.name(),
                "result": case.result.map(|dtype| dtype.name()),
            })
        });
        json!({
            "compute": policy.compute().name(),
            "class": policy.class(op).map(|class| class.name()),
            "default": op.class(policy.compute()).map(|class| class.name()),
            "cases": cases.collect::<Value>(),
        })
    });
    json!({
        "op": op.name(),
        "trait": op.trait_name(),
        "shape": shape(op),
        "from": settings.origin_of_op(op),
        "policies": policies.collect::<Value>(),
        "why": op.class_reason(),
        "by_rule": op.by_rule(),
        "by_hand": op.by_hand(),
    })
}
