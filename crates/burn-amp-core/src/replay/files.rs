//! What differs between two files of steps: two commits of a program, two versions of burn-amp, two machines.

use std::{collections::HashMap, fmt};

use serde::Serialize;

use super::{Argument, Call, Step, difference::name};

/// The first place at which two steps differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Change {
    /// A tensor that entered the step from outside, or an argument that is no float tensor.
    Input {
        /// The call that reads it.
        call: String,
        /// Its place among the arguments.
        argument: usize,
    },
    /// Another op is called, or with other shapes or options.
    Call {
        /// What the first file has; `None` if it has fewer calls.
        before: Option<String>,
        /// What the second one has.
        after: Option<String>,
    },
    /// A call that makes other bits of operands with the same bits: the op computes otherwise.
    Result {
        /// The call.
        call: String,
        /// The range of the result in the first file.
        before: String,
        /// The range in the second one.
        after: String,
    },
    /// The gradient of a tensor from outside.
    Gradient {
        /// The parameter, or the call that reads the tensor.
        of: String,
    },
    /// The factor on the loss.
    Scale {
        /// In the first file.
        before: Option<f32>,
        /// In the second one.
        after: Option<f32>,
    },
}

/// What differs between two steps, in the order of the calls, up to the first call that is another one. Files without
/// values can be compared as well.
pub fn changes(before: &Step, after: &Step) -> Vec<Change> {
    let mut changes = Vec::new();
    // The tensors whose bits differ, by their numbers in the second file.
    let mut changed: HashMap<u64, bool> = HashMap::new();
    let mut seen: HashMap<u64, u64> = HashMap::new();
    for at in 0..before.calls.len().max(after.calls.len()) {
        let (Some(old), Some(new)) = (before.calls.get(at), after.calls.get(at)) else {
            let told = |step: &Step| step.calls.get(at).map(|_| name(step, at));
            changes.push(Change::Call {
                before: told(before),
                after: told(after),
            });
            return changes;
        };
        if !is_like(old, new, &seen) {
            changes.push(Change::Call {
                before: Some(name(before, at)),
                after: Some(name(after, at)),
            });
            return changes;
        }
        let mut is_fed_alike = true;
        for (argument, (x, y)) in old.arguments.iter().zip(&new.arguments).enumerate() {
            let is_new = pairs(x, y).into_iter().any(|(x, y)| {
                seen.insert(x, y);
                let is_changed = *changed
                    .entry(y)
                    .or_insert_with(|| outside(before, x) != outside(after, y));
                is_fed_alike &= !is_changed;
                is_changed && before.outside.iter().any(|outside| outside.id == x)
            });
            let is_other = data(before, x) != data(after, y);
            is_fed_alike &= !is_other;
            if is_new || is_other {
                changes.push(Change::Input {
                    call: name(after, at),
                    argument,
                });
            }
        }
        for (x, y) in old.results.iter().zip(&new.results) {
            seen.insert(x.id, y.id);
            let differs = match (&x.values, &y.values) {
                (Some(x), Some(y)) => !x.has_bits_of(y),
                // A result that waits is made by its reader.
                (None, None) => !is_fed_alike,
                (None, Some(_)) | (Some(_), None) => false,
            };
            changed.insert(y.id, differs);
            if let (true, true, Some(x), Some(y)) = (differs, is_fed_alike, &x.values, &y.values) {
                changes.push(Change::Result {
                    call: name(after, at),
                    before: format!("{} {}", x.dtype, x.range),
                    after: format!("{} {}", y.dtype, y.range),
                });
            }
        }
    }
    if before.scale != after.scale {
        changes.push(Change::Scale {
            before: before.scale,
            after: after.scale,
        });
    }
    for (x, y) in before.outside.iter().zip(&after.outside) {
        let is_same = match (&x.gradient, &y.gradient) {
            (Some(x), Some(y)) => x.has_bits_of(y),
            (x, y) => x.is_none() && y.is_none(),
        };
        if !is_same {
            changes.push(Change::Gradient {
                of: y.parameter.clone().unwrap_or_else(|| reader(after, y.id)),
            });
        }
    }
    changes
}

/// Whether two calls are of the same op on the same tensors, in shape and in where they come from.
fn is_like(old: &Call, new: &Call, seen: &HashMap<u64, u64>) -> bool {
    let is_same_argument = |(x, y): (&Argument, &Argument)| match (x, y) {
        (Argument::Plain(x), Argument::Plain(y)) => x == y,
        (Argument::Data(_), Argument::Data(_)) | (Argument::Absent, Argument::Absent) => true,
        (Argument::Float(_), Argument::Float(_)) | (Argument::Floats(_), Argument::Floats(_)) => {
            let is_same = |(x, y): (u64, u64)| seen.get(&x).is_none_or(|seen| *seen == y);
            count(x) == count(y) && pairs(x, y).into_iter().all(is_same)
        }
        _ => false,
    };
    old.op == new.op
        && old.full_precision == new.full_precision
        && old.arguments.len() == new.arguments.len()
        && old.results.len() == new.results.len()
        && old
            .arguments
            .iter()
            .zip(&new.arguments)
            .all(is_same_argument)
}

/// The float tensors of two arguments, side by side.
fn pairs(x: &Argument, y: &Argument) -> Vec<(u64, u64)> {
    let pairs = uses(x).into_iter().zip(uses(y));
    pairs.collect()
}

fn count(argument: &Argument) -> usize {
    uses(argument).len()
}

fn uses(argument: &Argument) -> Vec<u64> {
    match argument {
        Argument::Float(x) => vec![x.id],
        Argument::Floats(x) => x.iter().map(|x| x.id).collect(),
        Argument::Data(_) | Argument::Absent | Argument::Plain(_) => Vec::new(),
    }
}

/// What a tensor from outside is like; `None` for one that a call made.
fn outside(step: &Step, id: u64) -> Option<&super::Sketch> {
    let outside = step.outside.iter().find(|outside| outside.id == id)?;
    step.tensors.get(outside.data)
}

/// What an integer or bool argument is like.
fn data<'a>(step: &'a Step, argument: &Argument) -> Option<&'a super::Sketch> {
    match argument {
        Argument::Data(at) => step.tensors.get(*at),
        _ => None,
    }
}

/// The first call that reads a tensor.
fn reader(step: &Step, id: u64) -> String {
    let reads = |call: &Call| call.uses().any(|operand| operand.id == id);
    match step.calls.iter().position(reads) {
        Some(at) => format!("an operand of {}", name(step, at)),
        None => "a tensor that no call reads".into(),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input { call, argument } => {
                write!(
                    f,
                    "argument {argument} of {call} has other bits: data, parameters or random numbers differ"
                )
            }
            Self::Call { before, after } => {
                let told = |call: &Option<String>| call.clone().unwrap_or_else(|| "no call".into());
                write!(
                    f,
                    "another call: {} before, {} after",
                    told(before),
                    told(after)
                )
            }
            Self::Result {
                call,
                before,
                after,
            } => write!(
                f,
                "{call} makes other bits of the same operands: {before} before, {after} after"
            ),
            Self::Gradient { of } => write!(f, "the gradient of {of} has other bits"),
            Self::Scale { before, after } => {
                let told =
                    |scale: &Option<f32>| scale.map_or("none".into(), |scale| scale.to_string());
                write!(
                    f,
                    "the loss scale is {} before, {} after",
                    told(before),
                    told(after)
                )
            }
        }
    }
}
