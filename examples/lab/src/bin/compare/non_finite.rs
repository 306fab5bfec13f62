//! The places where inf and NaN are found: the loss, the gradients, the parameters.
//!
//! A step computes them in this order, so the first place found is the nearest to the cause. The op remains unknown,
//! because Burn's backends do not report what an op returns.

use std::fmt;

use burn::{module::Module, tensor::backend::Backend};
use burn_amp::scaling::Skip;
use serde::Serialize;

use crate::parameters::{Parameter, non_finite};

/// A place that was not finite, and its kind: `loss`, `gradients` or `parameters`.
#[derive(Clone, Debug, PartialEq)]
pub struct Place(pub &'static str, pub String);

/// All sightings of one kind of place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NonFinite {
    pub kind: &'static str,
    /// The place of the first sighting.
    pub place: String,
    /// Counted from 1.
    pub first_step: usize,
    /// The loss scale of that step.
    pub loss_scale: f64,
    /// The number of steps with such a sighting.
    pub steps: usize,
}

impl Place {
    /// The loss of the forward pass.
    pub fn loss() -> Self {
        Self("loss", "the loss".to_owned())
    }

    /// The gradients for which the loss scaling skipped a step; `trainable` are all parameters that have gradients.
    ///
    /// burn-amp numbers gradients in the order in which their parameters were made. That is the order of the module if
    /// an update changes all of them; otherwise, as in a GAN, a gradient has a number here and no name.
    pub fn of_gradients(skip: &Skip, trainable: &[Parameter]) -> Option<Self> {
        // The backward pass starts at the parameter that is last in the module.
        let last = skip.overflowed.last()?;
        let name = match trainable.get(last.index) {
            Some(Parameter { name, shape, .. })
                if skip.gradients == trainable.len() && **shape == *last.shape =>
            {
                name.clone()
            }
            _ => format!("#{} {:?}", last.index, last.shape.as_slice()),
        };
        let (count, all) = (skip.overflowed.len(), skip.gradients);
        let text = format!("{count} of {all} gradients, nearest to the loss {name}");
        Some(Self("gradients", text))
    }

    /// The parameters after an update, running statistics of norms included. Incurs one device-to-host read.
    pub fn of_parameters<B: Backend, M: Module<B>>(module: &M) -> Option<Self> {
        let names = non_finite(module);
        let first = names.first()?;
        let text = match names.len() {
            1 => format!("parameter {first}"),
            count => format!("{count} parameters, the first of them {first}"),
        };
        Some(Self("parameters", text))
    }
}

impl NonFinite {
    /// Adds a sighting to the list, which has one entry for each kind of place.
    pub fn record(list: &mut Vec<Self>, Place(kind, place): Place, step: usize, loss_scale: f64) {
        if let Some(known) = list.iter_mut().find(|known| known.kind == kind) {
            known.steps += 1;
            return;
        }
        list.push(Self {
            kind,
            place,
            first_step: step,
            loss_scale,
            steps: 1,
        });
    }
}

/// Formats the sightings as a sentence.
impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Non-finite in step {}", self.first_step)?;
        if self.loss_scale != 1.0 {
            write!(f, " at a loss scale of {}", self.loss_scale)?;
        }
        write!(f, ": {}", self.place)?;
        match self.steps - 1 {
            0 => f.write_str("."),
            1 => f.write_str("; again in 1 later step."),
            later => write!(f, "; again in {later} later steps."),
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Shape;
    use burn_amp::{config::Precision, scaling::Overflow};

    use super::*;

    #[test]
    fn a_gradient_has_its_parameters_name_only_if_numbers_and_shapes_agree() {
        let parameter = |name: &str, shape: [usize; 2]| Parameter {
            name: name.to_owned(),
            shape: shape.into(),
            is_trainable: true,
            is_matrix: true,
        };
        let trainable = [parameter("first", [3, 2]), parameter("second", [2, 4])];
        let place = |overflowed: &[(usize, [usize; 2])], gradients| {
            let overflow = |(index, shape): &(usize, [usize; 2])| Overflow {
                index: *index,
                shape: Shape::from(*shape),
                dtype: Precision::F16,
            };
            let skip = Skip {
                step: 0,
                scale: 65536.0,
                overflowed: overflowed.iter().map(overflow).collect(),
                gradients,
            };
            Place::of_gradients(&skip, &trainable).map(|Place(_, text)| text)
        };
        for (index, shape, gradients, expected) in [
            (1, [2, 4], 2, "second"),
            (0, [3, 2], 2, "first"),
            (0, [3, 2], 1, "#0 [3, 2]"),
            (1, [3, 2], 2, "#1 [3, 2]"),
        ] {
            let text = place(&[(index, shape)], gradients).unwrap();
            assert_eq!(
                text,
                format!("1 of {gradients} gradients, nearest to the loss {expected}")
            );
        }
        assert_eq!(place(&[], 2), None);
    }

    #[test]
    fn sightings_are_counted_by_kind_and_the_first_of_each_is_kept() {
        let parameters = |text: &str| Place("parameters", text.to_owned());
        let mut list = Vec::new();
        NonFinite::record(&mut list, Place::loss(), 2, 1.0);
        NonFinite::record(&mut list, parameters("parameter weight"), 2, 512.0);
        NonFinite::record(&mut list, parameters("5 parameters"), 3, 512.0);
        let expected = [
            "Non-finite in step 2: the loss.",
            "Non-finite in step 2 at a loss scale of 512: parameter weight; again in 1 later step.",
        ];
        let sentences: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(sentences, expected);
    }
}
