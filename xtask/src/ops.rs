//! `cargo xtask ops`: checks that the table and `Amp`, the decorator, have every method of Burn's traits.
//!
//! The compiler cannot check this: code in which `Amp` does not forward a provided method still compiles, but never
//! calls the inner backend's own version of it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use burn_amp_core::Op;

use crate::{
    amp::{self, Sources},
    burn::{self, Method},
    shape, workspace,
};

/// The folder with the decorator's sources, relative to the root of the workspace.
const DECORATOR_SOURCES: &str = "crates/burn-amp-decorator/src";

/// Provided methods that the decorator inherits: trait, method, and the reason why Burn's body is right for it.
const INHERITED: &[(&str, &str, &str)] = &[
    (
        "DistributedBackend",
        "comm_device",
        "asks `Amp` for the device of its own tensor",
    ),
    (
        "DistributedBackend",
        "float_from_ref",
        "clones the decorator's own tensor",
    ),
];

/// The part of a row that the checks need.
#[derive(Clone, Copy, Debug)]
struct Row {
    trait_name: &'static str,
    name: &'static str,
    shape: &'static str,
    /// The reason why the decorator has a handwritten function for the op, or `None` if the method is generated.
    by_hand: Option<&'static str>,
}

/// Compares the table and the decorator's sources with Burn; prints every difference.
pub fn check() -> Result<()> {
    let package = workspace::dependency(burn::CRATE)?;
    let Some(folder) = package.manifest_path.parent() else {
        bail!("{}: no folder", package.manifest_path);
    };
    let ops = burn::methods(folder.as_std_path(), burn::OP_TRAITS)?;
    let backend = burn::methods(folder.as_std_path(), burn::BACKEND_TRAITS)?;
    let rows: Vec<_> = Op::ALL
        .iter()
        .map(|op| Row {
            trait_name: op.trait_name(),
            name: op.name(),
            shape: op.shape(),
            by_hand: op.by_hand(),
        })
        .collect();

    let mut problems = table_against_burn(&rows, &ops);
    let sources = Sources::read(&format!("{DECORATOR_SOURCES}/*.rs"))?;
    problems.extend(decorator_against_table(&sources, &rows, &backend));
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => {
            println!(
                "{} ops and {} methods of the backend traits match {} {}",
                ops.len(),
                backend.len(),
                burn::CRATE,
                package.version
            );
            Ok(())
        }
        1 => bail!("1 difference from {} {}", burn::CRATE, package.version),
        n => bail!("{n} differences from {} {}", burn::CRATE, package.version),
    }
}

/// Finds methods without a row, rows without a method, and rows whose shape differs from that of their method.
fn table_against_burn(rows: &[Row], methods: &[Method]) -> Vec<String> {
    let in_burn: BTreeMap<_, _> = methods
        .iter()
        .map(|method| ((method.trait_name, method.name.as_str()), method))
        .collect();
    let in_table: BTreeSet<_> = rows.iter().map(|row| (row.trait_name, row.name)).collect();

    let mut problems = Vec::new();
    for method in methods {
        let (trait_name, name) = (method.trait_name, method.name.as_str());
        if !in_table.contains(&(trait_name, name)) {
            let shape = &method.shape;
            problems.push(format!(
                "{trait_name}::{name} {shape}: in Burn, not in the table"
            ));
        }
    }
    for Row {
        trait_name,
        name,
        shape,
        by_hand: _,
    } in rows
    {
        let Some(method) = in_burn.get(&(trait_name, name)) else {
            problems.push(format!("{trait_name}::{name}: in the table, not in Burn"));
            continue;
        };
        match shape::of_row(shape) {
            Ok(row) if row == method.shape => {}
            Ok(row) => problems.push(format!(
                "{trait_name}::{name}: {row} in the table, {} in Burn",
                method.shape
            )),
            Err(error) => problems.push(format!("{trait_name}::{name}: {error:#}")),
        }
    }
    problems
}

/// Finds the methods, the handwritten functions and the rows that the decorator's sources lack.
fn decorator_against_table(sources: &Sources, rows: &[Row], backend: &[Method]) -> Vec<String> {
    let mut problems = Vec::new();
    for method in backend {
        let (trait_name, name) = (method.trait_name, method.name.as_str());
        let inherited = INHERITED
            .iter()
            .find(|(of, inherited, _)| (*of, *inherited) == (trait_name, name));
        match (sources.implements(trait_name, name), inherited) {
            (true, None) | (false, Some(_)) => {}
            (false, None) => problems.push(format!(
                "{trait_name}::{name}: not forwarded by `impl {trait_name} for Amp`"
            )),
            (true, Some((_, _, why))) => problems.push(format!(
                "{trait_name}::{name}: forwarded, although xtask has it as inherited ({why})"
            )),
        }
    }
    for row in rows {
        let (trait_name, name) = (row.trait_name, row.name);
        if let Some(reason) = row.by_hand
            && !sources.writes(trait_name, name)
        {
            problems.push(format!(
                "{trait_name}::{name}: by hand in the table ({reason}), but {DECORATOR_SOURCES} has no \
                 `fn {name}` next to `{}!`",
                amp::table_macro(trait_name)
            ));
        }
    }
    let tables: BTreeSet<_> = rows.iter().map(|row| row.trait_name).collect();
    for trait_name in tables {
        if !sources.forwards_rows(trait_name) {
            problems.push(format!(
                "{trait_name}: `{}!` is not called in {DECORATOR_SOURCES}",
                amp::table_macro(trait_name)
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
