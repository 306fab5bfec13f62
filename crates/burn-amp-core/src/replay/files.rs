//! What differs between two files of steps: two commits of a program, two versions of burn-amp, two machines.

use std::{collections::HashMap, fmt};

use serde::Serialize;

use super::{Argument, Call, Outside, Step, Use, difference::name};

/// A place at which two steps differ.
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
///
/// A call whose operands have other bits already may make other bits: it is not told.
pub fn changes(before: &Step, after: &Step) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut pairs = Pairs {
        steps: [before, after],
        seen: HashMap::new(),
    };
    for at in 0..before.calls.len().max(after.calls.len()) {
        let calls = before.calls.get(at).zip(after.calls.get(at));
        let Some((old, new)) = calls.filter(|(old, new)| pairs.are_like(old, new)) else {
            let told = |step: &Step| step.calls.get(at).map(|_| name(step, at));
            changes.push(Change::Call {
                before: told(before),
                after: told(after),
            });
            return changes;
        };
        let mut is_fed_alike = true;
        for (argument, (x, y)) in old.arguments.iter().zip(&new.arguments).enumerate() {
            let mut is_new = pairs.data_differs(x, y);
            is_fed_alike &= !is_new;
            for (x, y) in x.uses().iter().zip(y.uses()) {
                let is_first = !pairs.seen.contains_key(&x.id);
                let differs = pairs.differs(x.id, y.id);
                is_fed_alike &= !differs;
                is_new |= differs && is_first;
            }
            if is_new {
                changes.push(Change::Input {
                    call: name(after, at),
                    argument,
                });
            }
        }
        for (x, y) in old.results.iter().zip(&new.results) {
            let differs = match (&x.values, &y.values) {
                (Some(x), Some(y)) => !x.has_bits_of(y),
                // A result that waits is made by its reader.
                _ => !is_fed_alike,
            };
            pairs.seen.insert(x.id, (y.id, differs));
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
    changes.extend(pairs.gradients());
    changes
}

/// The tensors of two steps, side by side.
struct Pairs<'a> {
    steps: [&'a Step; 2],
    /// By the number of a tensor of the first step, that of the second and whether their bits differ.
    seen: HashMap<u64, (u64, bool)>,
}

impl Pairs<'_> {
    /// Whether two tensors have other bits. Those that were not seen are from outside.
    fn differs(&mut self, x: u64, y: u64) -> bool {
        let sketch = |step: &Step, id| {
            let place = outside(step, id).map(|outside| outside.data);
            place.and_then(|place| step.tensors.get(place).cloned())
        };
        let [before, after] = self.steps;
        let differs = || sketch(before, x) != sketch(after, y);
        self.seen.entry(x).or_insert_with(|| (y, differs())).1
    }

    /// Whether two arguments are other integer or bool tensors.
    fn data_differs(&self, x: &Argument, y: &Argument) -> bool {
        let sketch = |step: &Step, argument: &Argument| match argument {
            Argument::Data(at) => step.tensors.get(*at).cloned(),
            _ => None,
        };
        sketch(self.steps[0], x) != sketch(self.steps[1], y)
    }

    /// Whether two calls are of the same op on the same tensors, in number and in where they come from.
    fn are_like(&self, old: &Call, new: &Call) -> bool {
        let is_same =
            |(x, y): (&Use, &Use)| self.seen.get(&x.id).is_none_or(|(seen, _)| *seen == y.id);
        let is_same_argument = |(x, y): (&Argument, &Argument)| match (x, y) {
            (Argument::Plain(x), Argument::Plain(y)) => x == y,
            _ => {
                let (xs, ys) = (x.uses(), y.uses());
                std::mem::discriminant(x) == std::mem::discriminant(y)
                    && xs.len() == ys.len()
                    && xs.iter().zip(ys).all(is_same)
            }
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

    /// The gradients of tensors from outside that have other bits.
    fn gradients(&self) -> Vec<Change> {
        let [before, after] = self.steps;
        let differing = before.outside.iter().filter_map(|x| {
            let (y, _) = self.seen.get(&x.id)?;
            let y = outside(after, *y)?;
            let is_same = match (&x.gradient, &y.gradient) {
                (Some(x), Some(y)) => x.has_bits_of(y),
                (x, y) => x.is_none() && y.is_none(),
            };
            (!is_same).then(|| Change::Gradient {
                of: y.parameter.clone().unwrap_or_else(|| reader(after, y.id)),
            })
        });
        differing.collect()
    }
}

/// A tensor from outside; `None` for one that a call made.
fn outside(step: &Step, id: u64) -> Option<&Outside> {
    step.outside.iter().find(|outside| outside.id == id)
}

/// The first call that reads a tensor.
fn reader(step: &Step, id: u64) -> String {
    let reads = |(at, call): (usize, &Call)| {
        let place = call.uses().position(|operand| operand.id == id)?;
        Some(format!("operand {place} of {}", name(step, at)))
    };
    let reader = step.calls.iter().enumerate().find_map(reads);
    reader.unwrap_or_else(|| "a tensor that no call reads".into())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision,
        replay::{Data, Dtype, Nature, Produced, Values},
    };

    fn values(of: &[f64]) -> Values {
        Values::of(Precision::F32, vec![of.len()], of.iter().copied())
    }

    /// A step in which `ops` are called one after the other, each on the result of the one before and on a parameter. Its
    /// tensors have numbers from `first` on.
    fn step(first: u64, ops: &[&str], parameter: u8) -> Step {
        let outside = |id, data, parameter: Option<&str>| Outside {
            id,
            data,
            logical: Precision::F32,
            nature: Nature::Plain,
            parameter: parameter.map(str::to_owned),
            is_cut: false,
            gradient: Some(values(&[1.0])),
        };
        let used = |id| {
            Argument::Float(Use {
                id,
                is_shared: None,
            })
        };
        let calls = ops.iter().enumerate().map(|(at, op)| Call {
            op: (*op).to_owned(),
            site: None,
            full_precision: false,
            arguments: vec![
                used(first + if at == 0 { 0 } else { at as u64 + 1 }),
                used(first + 1),
            ],
            results: vec![Produced {
                id: first + at as u64 + 2,
                values: Some(values(&[at as f64])),
            }],
        });
        let data = |byte| Data {
            dtype: Dtype::F32,
            shape: vec![1],
            bytes: vec![byte, 0, 0, 0],
        };
        let mut step = Step {
            burn_amp: String::new(),
            backend: String::new(),
            config: String::new(),
            scale: None,
            cause: None,
            outside: vec![
                outside(first, 0, None),
                outside(first + 1, 1, Some("weight")),
            ],
            calls: calls.collect(),
            loss: first + ops.len() as u64 + 1,
            tensors: Vec::new(),
            data: vec![data(0), data(parameter)],
        };
        step.tensors = step.data.iter().map(Data::sketch).collect();
        step.data.clear();
        step
    }

    fn told(before: &Step, after: &Step) -> Vec<String> {
        changes(before, after)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn steps_with_the_same_bits_have_no_changes_whatever_their_numbers() {
        let ops = ["float_add", "float_mul"];
        assert_eq!(changes(&step(1, &ops, 7), &step(100, &ops, 7)), []);
    }

    #[test]
    fn a_result_of_the_same_operands_is_told_and_what_follows_from_it_is_not() {
        let ops = ["float_add", "float_mul", "float_sub"];
        let mut after = step(100, &ops, 7);
        for (at, call) in after.calls.iter_mut().enumerate().skip(1) {
            call.results[0].values = Some(values(&[10.0 + at as f64]));
        }
        after.outside[1].gradient = None;
        assert_eq!(
            told(&step(1, &ops, 7), &after),
            [
                "call 1, `float_mul` makes other bits of the same operands: f32 1 to 1 before, f32 11 to 11 after",
                "the gradient of weight has other bits",
            ]
        );
    }

    #[test]
    fn a_parameter_with_other_values_is_told_once() {
        let ops = ["float_add", "float_mul"];
        let mut after = step(100, &ops, 8);
        after.calls[0].results[0].values = Some(values(&[5.0]));
        after.scale = Some(2.0);
        assert_eq!(
            told(&step(1, &ops, 7), &after),
            [
                "argument 1 of call 0, `float_add` has other bits: data, parameters or random numbers differ",
                "the loss scale is none before, 2 after",
            ]
        );
    }

    #[test]
    fn another_call_ends_the_comparison() {
        let before = step(1, &["float_add", "float_mul"], 7);
        assert_eq!(
            told(
                &before,
                &step(1, &["float_add", "float_sub", "float_exp"], 7)
            ),
            ["another call: call 1, `float_mul` before, call 1, `float_sub` after"]
        );
        assert_eq!(
            told(&before, &step(1, &["float_add"], 7)),
            ["another call: call 1, `float_mul` before, no call after"]
        );
        // The same op on another tensor.
        let mut other = before.clone();
        other.calls[1].arguments.swap(0, 1);
        assert_eq!(told(&before, &other).len(), 1);
    }
}
