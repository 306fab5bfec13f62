//! A parameter on its way into the step of all parameters, and out of it.

use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    names::device_of,
    optimizer::{
        Listed, ListedOf, Master, MasterOf, MomentFormat, Place, Stepped, SteppedOf,
        StoredMomentOf, offset, rounded, rounding::mixed, undefined, weights, widened,
    },
};
use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{Device, FloatTensor},
};

use super::{ListOptimizer, Masters, Parameter, SteppedParameter, state::ListState};
use crate::{
    graph::Recorded,
    loss_scale::Passes,
    policy::Context,
    precision,
    tensor::{AmpTensor, Factors, Parts, Reader, Role},
};

/// What is known of a parameter that waits for its step.
pub(super) struct Waiting<B: AmpBackend> {
    context: &'static Context<B>,
    /// Its state, without what the step takes.
    state: ListState<B>,
    /// Whether the master that the step returns is kept.
    keeps_master: bool,
}

impl ListOptimizer {
    /// Prepares a parameter of a shape, on a device, and its state. Also returns the factors that are left to the step.
    pub(super) fn prepared<B: AmpBackend>(
        &self,
        parameter: Parameter<B>,
        shape: Shape,
        device: &Device<B>,
        passes: &Passes<B>,
    ) -> (Waiting<B>, ListedOf<B>, Factors<B>) {
        let Parameter {
            id,
            keeps_more,
            tensor: parameter,
            gradient,
            state,
        } = parameter;
        let state = state.and_then(ListState::decided);
        let state = state.unwrap_or_else(|| ListState::new(shape));
        let ListState {
            time,
            undecided: _,
            master,
            moments,
            shape,
        } = state.on_device(device);
        let (low, context) = (low_copy(&parameter), parameter.context);
        let dtype = parameter.exact_dtype();
        // The step writes to the parameter in place, since nobody else holds it.
        let parameter = parameter.read(dtype, Reader::Cut);
        let (parameter, master, keeps_master) = self.weights::<B>(parameter, master);
        let format = self.moments.format(shape.num_elements(), keeps_more);
        let moments = self.moments_in::<B>(format, &parameter, time, moments);
        let (gradient, factors) = gradient.into_unscaled();
        let time = time + 1;
        let listed = Listed {
            parameter,
            gradient,
            factor: factors.unscale,
            master,
            moments,
            key: key(self.seed, id, time),
            rounds_stochastically: matches!(self.masters, Masters::Stochastic | Masters::Bits24),
            time: i32::try_from(time).unwrap_or(i32::MAX),
            low: low.map(precision::to_float),
        };
        let state = ListState {
            time,
            undecided: passes.clone(),
            ..ListState::new(shape)
        };
        let waiting = Waiting {
            context,
            state,
            keeps_master,
        };
        (waiting, listed, factors)
    }

    /// Returns the parameter that the step reads and writes, its separate master, and whether that is kept.
    fn weights<B: AmpBackend>(
        &self,
        parameter: FloatTensor<B>,
        master: MasterOf<B>,
    ) -> (FloatTensor<B>, MasterOf<B>, bool) {
        let stored = parameter.dtype();
        if let (DType::BF16, Some(dtype)) = (stored, self.masters.offset()) {
            let (parameter, offset) = match master {
                Master::Offset(offset) if offset.dtype() == dtype.into() => (parameter, offset),
                Master::Parameter => {
                    let (shape, device) = (parameter.shape(), device_of::<B>(&parameter));
                    (parameter, B::int_zeros(shape, &device, dtype))
                }
                other => offset::split::<B>(weights::<B>(other, parameter), dtype),
            };
            return (parameter, Master::Offset(offset), true);
        }
        match (stored, self.masters, master) {
            (DType::F16, Masters::Stochastic | Masters::Split | Masters::Bits24, master)
            | (DType::F16 | DType::BF16, Masters::F32, master) => {
                let master = weights::<B>(master, parameter.clone());
                (parameter, Master::F32(master), true)
            }
            // Masters are no longer kept, or the model was converted back to F32: the step still starts from them.
            (
                DType::F16 | DType::BF16,
                Masters::None | Masters::Stochastic,
                master @ (Master::F32(_) | Master::Offset(_)),
            ) => {
                let master = weights::<B>(master, parameter.clone());
                (parameter, Master::F32(master), false)
            }
            (DType::F32, _, Master::F32(master)) => (master, Master::Parameter, false),
            (_, _, _) => (parameter, Master::Parameter, false),
        }
    }

    /// Returns as many moments as the rule has, in a format.
    fn moments_in<B: AmpBackend>(
        &self,
        format: MomentFormat,
        parameter: &FloatTensor<B>,
        time: usize,
        moments: Vec<StoredMomentOf<B>>,
    ) -> Vec<StoredMomentOf<B>> {
        let wide = precision::of(parameter).join(Precision::F32);
        let (shape, device) = (parameter.shape(), device_of::<B>(parameter));
        let mut moments = moments.into_iter();
        let moments = (0..self.rule.moments()).map(|at| {
            let moment = match moments.next() {
                Some(moment) if moment.format() == format && format != MomentFormat::Wide => {
                    return moment;
                }
                Some(moment) => {
                    let dtype = precision::to_burn(wide);
                    widened::<B>(moment, shape.clone(), dtype, Place::at(at))
                }
                None if time == 0 => {
                    let dtype = precision::to_float(wide);
                    return undefined::<B>(format, shape.clone(), dtype, &device);
                }
                // Adam had no largest second moment before: its next is the largest.
                None => B::float_zeros(shape.clone(), &device, precision::to_float(wide)),
            };
            // A state in another format is rounded to the nearest, once.
            rounded::<B>(moment, format, Place::at(at), None)
        });
        moments.collect()
    }
}

impl<B: AmpBackend> Waiting<B> {
    /// Returns the parameter after its step.
    pub(super) fn ended(self, stepped: SteppedOf<B>) -> SteppedParameter<B> {
        let Stepped {
            parameter,
            master,
            moments,
            low,
        } = stepped;
        let state = ListState {
            master: match self.keeps_master {
                true => master,
                false => Master::Parameter,
            },
            moments,
            ..self.state
        };
        let tensor = AmpTensor::of(Parts {
            logical: precision::of(&parameter),
            values: parameter,
            context: self.context,
            role: Role::Activation,
            recorded: match low {
                Some(low) => Recorded::of_lowered(precision::of(&low), low),
                None => Recorded::nothing(),
            },
        });
        SteppedParameter {
            tensor,
            state: (!state.is_empty()).then_some(state),
        }
    }
}

/// Returns the low dtype in which the next forward pass will read a parameter, if ops have read it in one and it is stored
/// in another.
fn low_copy<B: AmpBackend>(parameter: &AmpTensor<B>) -> Option<Precision> {
    let low = parameter.role.origin()?.lowered()?;
    (parameter.stored() == Precision::F32).then_some(low)
}

/// Returns the key of the random numbers that a parameter draws in a step.
fn key(seed: u64, id: u64, time: usize) -> u32 {
    let halves = |number: u64| [number as u32, (number >> 32) as u32];
    let words = [seed, id, time as u64].map(halves);
    words
        .as_flattened()
        .iter()
        .fold(0, |key, word| mixed(key ^ word))
}
