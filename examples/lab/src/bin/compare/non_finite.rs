//! Where inf and NaN are seen: the loss, the gradients, the parameters.
//!
//! In this order a step makes them, so the first one that is seen is the nearest to the cause. Which op it was is not
//! known: Burn's backends do not tell what an op returns.

use std::fmt;

use burn::{
    module::{Module, ModuleVisitor, Param},
    prelude::*,
};
use burn_amp::Skip;

use crate::layers::{self, Layer};

/// Where something was not finite in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of the forward pass.
    Loss,
    /// Seen by the loss scaling, which skipped the step; unscaled gradients are not looked at.
    Gradients {
        count: usize,
        of: usize,
        /// The one that a backward pass comes to first: of the parameter that is last in the module.
        nearest_to_loss: String,
    },
    /// After the update; running statistics of norms count as well.
    Parameters { count: usize, first: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Counted from 1.
    pub step: usize,
    pub loss_scale: f64,
    pub place: Place,
}

/// In the order in which they were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events(Vec<Event>);

/// All events of one kind of place.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting<'a> {
    pub first: &'a Event,
    pub steps: usize,
}

impl Place {
    /// What the gradients of a skipped step say; `layers` are the trainable parameters.
    ///
    /// burn-amp numbers gradients in the order in which parameters were made. That is the order of the module where an
    /// update makes all of them; where it does not, as in a GAN, a gradient has no name here but its number.
    pub fn of_skip(skip: &Skip, layers: &[Layer]) -> Option<Self> {
        let last = skip.overflowed.last()?;
        let name = layers
            .get(last.index)
            .filter(|layer| skip.gradients == layers.len() && *layer.shape == *last.shape)
            .map(|layer| layer.name.clone());
        let number = || format!("#{} {:?}", last.index, last.shape.as_slice());
        Some(Self::Gradients {
            count: skip.overflowed.len(),
            of: skip.gradients,
            nearest_to_loss: name.unwrap_or_else(number),
        })
    }

    /// Incurs one device-to-host read.
    pub fn of_parameters<B: Backend, M: Module<B>>(module: &M) -> Option<Self> {
        let names = non_finite(module);
        Some(Self::Parameters {
            count: names.len(),
            first: names.into_iter().next()?,
        })
    }

    /// `gradient conv1.weight`
    pub fn in_short(&self) -> String {
        match self {
            Self::Loss => "loss".to_owned(),
            Self::Gradients {
                nearest_to_loss, ..
            } => format!("gradient {nearest_to_loss}"),
            Self::Parameters { first, .. } => format!("parameter {first}"),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss => f.write_str("the loss"),
            Self::Gradients {
                count,
                of,
                nearest_to_loss,
            } => write!(
                f,
                "{count} of {of} gradients, nearest to the loss {nearest_to_loss}"
            ),
            Self::Parameters { count: 1, first } => write!(f, "parameter {first}"),
            Self::Parameters { count, first } => {
                write!(f, "{count} parameters, the first of them {first}")
            }
        }
    }
}

impl Events {
    pub fn push(&mut self, event: Event) {
        self.0.push(event);
    }

    /// One for each kind of place, in the order of the first.
    pub fn sightings(&self) -> Vec<Sighting<'_>> {
        let mut sightings: Vec<Sighting> = Vec::new();
        for event in &self.0 {
            match sightings
                .iter_mut()
                .find(|seen| seen.first.place.is_like(&event.place))
            {
                Some(seen) => seen.steps += 1,
                None => sightings.push(Sighting {
                    first: event,
                    steps: 1,
                }),
            }
        }
        sightings
    }
}

/// The names of all tensors that have an element that is inf or NaN. Incurs one device-to-host read.
fn non_finite<B: Backend, M: Module<B>>(module: &M) -> Vec<String> {
    let mut flags = Flags::<B> {
        path: Vec::new(),
        names: Vec::new(),
        finite: Vec::new(),
    };
    module.visit(&mut flags);
    let Flags {
        path: _,
        names,
        finite,
    } = flags;
    if finite.is_empty() {
        return Vec::new();
    }
    let finite = Tensor::cat(finite, 0).into_data();
    let flagged = names.into_iter().zip(finite.iter::<bool>());
    flagged
        .filter_map(|(name, finite)| (!finite).then_some(name))
        .collect()
}

struct Flags<B: Backend> {
    path: Vec<String>,
    names: Vec<String>,
    /// Of one element each, still on the device.
    finite: Vec<Tensor<B, 1, Bool>>,
}

impl<B: Backend> ModuleVisitor<B> for Flags<B> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        // A comparison with NaN is false.
        let finite = param.val().abs().lower_equal_elem(f32::MAX).all();
        self.names
            .push(layers::name(self.path.iter().map(String::as_str)));
        self.finite.push(finite);
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::Flex,
        module::Initializer,
        nn::{Linear, LinearConfig},
        tensor::Shape,
    };
    use burn_amp::{Dtype, Overflow};

    use super::*;

    fn net(bias: [f32; 2]) -> Vec<Linear<Flex>> {
        let device = Default::default();
        // Drawn weights would come from the seed that another test has just set.
        let linear = LinearConfig::new(3, 2).with_initializer(Initializer::Zeros);
        let linear = || linear.init::<Flex>(&device);
        let mut second = linear();
        second.bias = Some(Param::from_data(bias, &device));
        vec![linear(), second]
    }

    #[test]
    fn names_the_parameters_that_have_an_inf_or_a_nan() {
        assert_eq!(Place::of_parameters(&net([0.0, f32::MAX])), None);
        for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            let place = Place::of_parameters(&net([0.0, wrong]));
            let first = "1.bias".to_owned();
            assert_eq!(
                place,
                Some(Place::Parameters { count: 1, first }),
                "{wrong}"
            );
        }
    }

    fn skip(overflowed: &[(usize, [usize; 2])], gradients: usize) -> Skip {
        let overflow = |(index, shape): &(usize, [usize; 2])| Overflow {
            index: *index,
            shape: Shape::from(*shape),
            dtype: Dtype::F16,
        };
        Skip {
            step: 0,
            scale: 65536.0,
            overflowed: overflowed.iter().map(overflow).collect(),
            gradients,
        }
    }

    #[test]
    fn a_gradient_has_its_parameters_name_only_if_numbers_and_shapes_agree() {
        let layer = |name: &str, shape: [usize; 2]| Layer {
            name: name.to_owned(),
            shape: shape.into(),
            is_matrix: true,
        };
        let layers = [layer("first", [3, 2]), layer("second", [2, 4])];
        let name = |skip| match Place::of_skip(&skip, &layers) {
            Some(Place::Gradients {
                nearest_to_loss, ..
            }) => nearest_to_loss,
            place => panic!("{place:?}"),
        };
        assert_eq!(name(skip(&[(0, [3, 2]), (1, [2, 4])], 2)), "second");
        assert_eq!(name(skip(&[(0, [3, 2])], 2)), "first");
        assert_eq!(name(skip(&[(0, [3, 2])], 1)), "#0 [3, 2]");
        assert_eq!(name(skip(&[(1, [3, 2])], 2)), "#1 [3, 2]");
        assert_eq!(Place::of_skip(&skip(&[], 2), &layers), None);
    }

    #[test]
    fn events_are_counted_by_kind_and_the_first_of_each_is_kept() {
        let event = |step, place| Event {
            step,
            loss_scale: 1.0,
            place,
        };
        let parameters = |count| Place::Parameters {
            count,
            first: "weight".to_owned(),
        };
        let mut events = Events::default();
        assert_eq!(events.sightings(), []);
        events.push(event(2, Place::Loss));
        events.push(event(2, parameters(1)));
        events.push(event(3, parameters(5)));
        let seen: Vec<_> = events
            .sightings()
            .iter()
            .map(|seen| (seen.first.step, seen.first.place.to_string(), seen.steps))
            .collect();
        let expected = [(2, "the loss", 1), (2, "parameter weight", 2)];
        assert_eq!(
            seen,
            expected.map(|(step, place, steps)| (step, place.to_owned(), steps))
        );
    }
}
