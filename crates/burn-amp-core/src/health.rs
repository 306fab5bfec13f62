//! The health of training: how much of each gradient the compute dtype loses, and how many updates rounding swallows.
//!
//! Every so many steps the optimizer is [looked](Look) at. What is wrong for a hundred steps is a [`Concern`].

use std::{collections::HashMap, fmt};

use serde::{Deserialize, Serialize};

use crate::Precision;

/// A parameter that has not moved, or a clipping that leaves next to nothing, for so many steps is a concern.
const FOR_STEPS: u64 = 100;

/// A factor of clipping that leaves next to nothing of the gradients.
const SMALL_CLIP: f64 = 1e-4;

/// The number of looks that are kept. When there are as many, every second one is dropped.
const MOST_LOOKS: usize = 512;

/// A step of an optimizer that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// A number that tells optimizers apart: that of the first parameter.
    pub optimizer: u64,
    /// The number of the step of this optimizer, counted from 1.
    pub step: u64,
    /// The loss scale after the backward pass; `None` if losses are not scaled.
    pub scale: Option<f32>,
    /// The factor of a clipping; `None` without one.
    pub clip: Option<f64>,
    /// The parameters that had a gradient.
    pub parameters: Vec<ParameterHealth>,
}

/// A parameter in a step that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterHealth {
    /// A number of its own.
    pub id: u64,
    /// The path, or `#` and the place in the step of a parameter without a name.
    pub name: String,
    /// The dtype in which the parameter is stored.
    pub stored: Precision,
    /// What the gradient is like, as the backward pass left it.
    pub gradient: Counts,
    /// What became of the update.
    pub update: Updates,
}

/// How many elements of a gradient are at an end of the range of a dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// The number of elements.
    pub elements: u64,
    /// Those that are 0. Many reasons make zeros; too small a loss scale is one.
    pub zero: u64,
    /// Those below the smallest normal number, which have lost bits.
    pub subnormal: u64,
    /// Those within a factor 4 of the largest number.
    pub near_limit: u64,
    /// Those that are inf or NaN.
    pub not_finite: u64,
}

/// How many elements of a parameter an update has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Updates {
    /// The elements that were to move.
    pub due: u64,
    /// Those of them that stayed as they were, bit for bit, because the update was below half a unit in the last place.
    pub lost: u64,
}

impl Counts {
    /// Counts values in the range of a dtype.
    pub fn of(values: impl Iterator<Item = f64>, dtype: Precision) -> Self {
        let (least, limit) = (dtype.min_positive(), dtype.max() / 4.0);
        let mut counts = Self::default();
        for x in values.map(f64::abs) {
            counts.elements += 1;
            counts.zero += u64::from(x == 0.0);
            counts.subnormal += u64::from((x > 0.0) & (x < least));
            counts.not_finite += u64::from(!x.is_finite());
            counts.near_limit += u64::from((x >= limit) & x.is_finite());
        }
        counts
    }
}

impl Updates {
    /// Counts elements, each with whether a step was to move it and whether it did.
    pub fn of(elements: impl Iterator<Item = (bool, bool)>) -> Self {
        let mut updates = Self::default();
        for (is_due, has_moved) in elements {
            updates.due += u64::from(is_due);
            updates.lost += u64::from(is_due & !has_moved);
        }
        updates
    }
}

/// The looks at a device so far.
#[derive(Clone, Debug, Default)]
pub struct History {
    looks: Vec<Look>,
    /// The step since which a parameter has lost every update, and whether that was said.
    frozen: HashMap<u64, (u64, bool)>,
    /// The same of an optimizer whose clipping leaves next to nothing.
    clipped: HashMap<u64, (u64, bool)>,
}

/// What has been wrong for a hundred steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Concern {
    /// Rounding has swallowed every update of these parameters.
    Frozen {
        /// Their names.
        parameters: Vec<String>,
        /// The dtype of the first of them.
        stored: Precision,
        /// For so many steps.
        steps: u64,
    },
    /// The clipping has left next to nothing of the gradients.
    Clipped {
        /// The factor of the last step.
        factor: f64,
        /// For so many steps.
        steps: u64,
    },
}

impl History {
    /// The looks, the first one first; of a long run, looks that are spread over all of it.
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// Adds a look, and returns what has been wrong for a hundred steps and was not said yet.
    pub fn add(&mut self, look: Look) -> Vec<Concern> {
        let mut concerns = Vec::new();
        let (mut frozen, mut longest, mut stored) = (Vec::new(), 0, Precision::BF16);
        for parameter in &look.parameters {
            let Updates { due, lost } = parameter.update;
            if due == 0 || lost < due {
                self.frozen.remove(&parameter.id);
                continue;
            }
            let since = self.frozen.entry(parameter.id);
            let (since, is_said) = since.or_insert((look.step, false));
            let steps = look.step - *since;
            if steps >= FOR_STEPS && !*is_said {
                *is_said = true;
                if frozen.is_empty() {
                    stored = parameter.stored;
                }
                longest = longest.max(steps);
                frozen.push(parameter.name.clone());
            }
        }
        if !frozen.is_empty() {
            concerns.push(Concern::Frozen {
                parameters: frozen,
                stored,
                steps: longest,
            });
        }
        match look.clip.filter(|factor| *factor < SMALL_CLIP) {
            None => {
                self.clipped.remove(&look.optimizer);
            }
            Some(factor) => {
                let since = self.clipped.entry(look.optimizer);
                let (since, is_said) = since.or_insert((look.step, false));
                let steps = look.step - *since;
                if steps >= FOR_STEPS && !*is_said {
                    *is_said = true;
                    concerns.push(Concern::Clipped { factor, steps });
                }
            }
        }
        self.looks.push(look);
        if self.looks.len() == MOST_LOOKS {
            let mut at = 0;
            self.looks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        concerns
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frozen {
                parameters,
                stored,
                steps,
            } => {
                let shown: Vec<_> = parameters
                    .iter()
                    .take(3)
                    .map(|name| format!("`{name}`"))
                    .collect();
                let others = parameters.len() - shown.len();
                let more = match others {
                    0 => String::new(),
                    _ => format!(" and {others} more"),
                };
                write!(
                    f,
                    "{}{more}: every update of the last {steps} steps was smaller than half a unit in the last place of \
                     {stored}, so nothing has moved. ",
                    shown.join(", ")
                )?;
                f.write_str(match stored.is_low() {
                    true => "Keep masters (`Masters::F32` or `Masters::Split`), or round stochastically (`Masters::Stochastic`)",
                    false => "The learning rate is too small for f32, or the gradients are",
                })
            }
            Self::Clipped { factor, steps } => write!(
                f,
                "for {steps} steps clipping has left {factor:.1e} of the gradients: the limit of the norm is far below the \
                 norms, or a few parameters have gradients far above the others"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(step: u64, update: Updates, clip: Option<f64>) -> Look {
        let parameter = |id, name: &str, update| ParameterHealth {
            id,
            name: name.into(),
            stored: Precision::BF16,
            gradient: Counts::default(),
            update,
        };
        Look {
            optimizer: 1,
            step,
            scale: None,
            clip,
            parameters: vec![
                parameter(1, "lora_a", update),
                parameter(2, "head", Updates { due: 8, lost: 7 }),
            ],
        }
    }

    #[test]
    fn values_are_counted_by_where_they_are_in_the_range() {
        let values = [
            0.0,
            -0.0,
            1e-5,
            -6e-8,
            1.0,
            2e4,
            -65504.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let counts = Counts::of(values.into_iter(), Precision::F16);
        let expected = Counts {
            elements: 9,
            zero: 2,
            subnormal: 2,
            near_limit: 2,
            not_finite: 2,
        };
        assert_eq!(counts, expected);
        assert_eq!(Counts::of(values.into_iter(), Precision::BF16).subnormal, 0);
    }

    #[test]
    fn a_parameter_that_loses_every_update_for_a_hundred_steps_is_said_once() {
        let all = Updates { due: 4, lost: 4 };
        let mut history = History::default();
        for step in (10..110).step_by(10) {
            assert_eq!(history.add(look(step, all, None)), []);
        }
        let said = history.add(look(110, all, None));
        assert_eq!(
            said[0].to_string(),
            "`lora_a`: every update of the last 100 steps was smaller than half a unit in the last place of bf16, so nothing \
             has moved. Keep masters (`Masters::F32` or `Masters::Split`), or round stochastically (`Masters::Stochastic`)"
        );
        assert_eq!(history.add(look(120, all, None)), []);
        // It moves once, and the hundred steps begin again.
        history.add(look(130, Updates { due: 4, lost: 3 }, None));
        assert_eq!(history.add(look(140, all, None)), []);
        assert_eq!(history.add(look(240, all, None)).len(), 1);
        assert_eq!(history.looks().len(), 15);
        (250..10_000).for_each(|step| drop(history.add(look(step, Updates::default(), None))));
        let steps: Vec<_> = history.looks().iter().map(|look| look.step).collect();
        assert!(
            steps.len() < MOST_LOOKS && steps.is_sorted(),
            "{}",
            steps.len()
        );
        assert_eq!((steps[0], steps[steps.len() - 1]), (10, 9999));
    }

    #[test]
    fn two_optimizers_in_turn_have_steps_of_their_own() {
        let mut history = History::default();
        let all = Updates { due: 4, lost: 4 };
        for step in 1..=101 {
            let mut other = look(step, Updates { due: 4, lost: 0 }, Some(0.5));
            other.optimizer = 7;
            other
                .parameters
                .iter_mut()
                .for_each(|parameter| parameter.id += 7);
            assert_eq!(history.add(other), []);
            let said = history.add(look(step, all, Some(1e-5)));
            assert_eq!(said.len(), if step == 101 { 2 } else { 0 }, "{step}");
        }
    }

    #[test]
    fn a_clipping_that_leaves_next_to_nothing_is_said() {
        let mut history = History::default();
        let moves = Updates { due: 4, lost: 0 };
        assert_eq!(history.add(look(1, moves, Some(1e-5))), []);
        assert_eq!(history.add(look(51, moves, Some(1e-5))), []);
        let said = history.add(look(101, moves, Some(2e-5)));
        assert!(
            matches!(&said[..], [Concern::Clipped { steps: 100, .. }]),
            "{said:?}"
        );
        assert_eq!(history.add(look(102, moves, Some(0.5))), []);
        assert_eq!(history.add(look(103, moves, Some(1e-5))), []);
    }
}
