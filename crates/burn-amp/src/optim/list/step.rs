//! The step of the parameters that were taken out of a model.

use std::sync::Arc;

use burn::{module::ParamId, optim::LearningRate};
use burn_amp_core::Precision;
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    optimizer::{
        ListStep, Listed, Master, Moment, MomentFormat, Place, Rule, Stepped, offset,
        rounding::mixed,
    },
};
use burn_backend::{
    DType, IntDType, TensorMetadata,
    tensor::{Device, FloatTensor},
};
use hashbrown::HashMap;

use super::{
    super::{Masters, Moments},
    state::{ListMaster, ListState},
    walk::{self, Facts, TakenAll, TakenParameter},
};
use crate::{
    graph::Recorded,
    loss_scale::Passes,
    policy::Context,
    precision,
    tensor::{AmpTensor, Factors, Parts, Reader, Role},
};

/// An optimizer that steps all parameters together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListOptimizer {
    pub(super) rule: Rule,
    pub(super) masters: Masters,
    pub(super) moments: Moments,
    /// The seed of stochastic rounding.
    pub(super) seed: u64,
}

/// A parameter that waits for its step.
struct Waiting<B: AmpBackend> {
    id: ParamId,
    flags: Facts,
    context: &'static Context<B>,
    /// Its state before the step, without what the step takes.
    state: ListState<B>,
    /// Whether the master that the step returns is kept.
    keeps_master: bool,
}

impl ListOptimizer {
    /// Makes a step; if one of the passes overflowed, the device leaves everything as it is.
    pub(super) fn step<B: AmpBackend>(
        self,
        lr: LearningRate,
        taken: TakenAll<B>,
        states: &mut HashMap<ParamId, ListState<B>>,
    ) -> walk::SteppedParameters<B> {
        let TakenAll { parameters, passes } = taken;
        let mut lists: Vec<ParameterList<B>> = Vec::new();
        for taken in parameters {
            let device = taken.parameter.device();
            let state = states.remove(&taken.id).and_then(ListState::decided);
            let state = state.unwrap_or_else(|| ListState::new(taken.parameter.shape()));
            let state = state.on_device(&device);
            let (waiting, listed, factors) = self.listed(taken, state, &passes);
            let at = match lists.iter().position(|list| list.takes(&device, &factors)) {
                Some(at) => at,
                None => {
                    lists.push(ParameterList::new(device, factors));
                    lists.len() - 1
                }
            };
            lists[at].waiting.push(waiting);
            lists[at].parameters.push(listed);
        }
        let mut all = walk::SteppedParameters::new();
        for list in lists {
            let ParameterList {
                device,
                factors,
                waiting,
                parameters,
            } = list;
            let here = |tensor: &FloatTensor<B>| B::float_to_device(tensor.clone(), &device);
            let stepped = kernels::optimizer::step::<B>(ListStep {
                rule: self.rule,
                lr,
                scaled_by: factors.pass.map(|pass| here(&pass.before)),
                unless_overflowed: overflowed_state(&passes, &device),
                clip: factors.clip.map(|clip| here(&clip)),
                parameters,
            });
            for (waiting, stepped) in waiting.into_iter().zip(stepped) {
                let Waiting {
                    id,
                    flags,
                    context,
                    state,
                    keeps_master,
                } = waiting;
                let low = stepped.low.clone();
                let (parameter, state) = self.ended(state, keeps_master, stepped);
                if let Some(state) = state {
                    states.insert(id, state);
                }
                all.insert(id, (wrapped(parameter, low, context), flags));
            }
        }
        all
    }

    /// Prepares a parameter and its state. Also returns the factors that are left to the step.
    fn listed<B: AmpBackend>(
        self,
        taken: TakenParameter<B>,
        state: ListState<B>,
        passes: &Passes<B>,
    ) -> (Waiting<B>, Listed<B>, Factors<B>) {
        let ListState {
            time,
            undecided: _,
            master,
            moments,
            shape,
        } = state;
        let TakenParameter {
            id,
            parameter,
            gradient,
            flags,
        } = taken;
        let (low, context) = (low_copy(&parameter), parameter.context);
        let dtype = parameter.exact_dtype();
        // The step writes to the parameter in place, since nobody else holds it.
        let parameter = parameter.read(dtype, Reader::Cut);
        let (parameter, master, keeps_master) = self.weights::<B>(parameter, master);
        let format = self.moments.format(shape.num_elements(), flags.keeps_more);
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
            rounds_stochastically: self.masters == Masters::Stochastic,
            time: i32::try_from(time).unwrap_or(i32::MAX),
            low: low.map(precision::to_float),
        };
        let state = ListState {
            time,
            undecided: passes.clone(),
            ..ListState::new(shape)
        };
        let waiting = Waiting {
            id,
            flags,
            context,
            state,
            keeps_master,
        };
        (waiting, listed, factors)
    }

    /// Returns the parameter that the step reads and writes, its separate master, and whether that is kept.
    fn weights<B: AmpBackend>(
        self,
        parameter: FloatTensor<B>,
        master: ListMaster<B>,
    ) -> (FloatTensor<B>, Option<Master<B>>, bool) {
        match (parameter.dtype(), self.masters, master) {
            (DType::BF16, Masters::Split, ListMaster::Offset(offset)) => {
                (parameter, Some(Master::Offset(offset)), true)
            }
            (DType::BF16, Masters::Split, ListMaster::Parameter) => {
                let (shape, device) = (parameter.shape(), B::float_device(&parameter));
                let offset = B::int_zeros(shape, &device, IntDType::I16);
                (parameter, Some(Master::Offset(offset)), true)
            }
            (DType::BF16, Masters::Split, ListMaster::F32(master)) => {
                let (parameter, offset) = offset::split::<B>(master);
                (parameter, Some(Master::Offset(offset)), true)
            }
            (DType::F16, Masters::Stochastic, master)
            | (DType::F16 | DType::BF16, Masters::F32 | Masters::Split, master) => {
                let weights = master.weights_of(parameter.clone());
                (parameter, Some(Master::F32(weights)), true)
            }
            // Masters are no longer kept, or the model was converted back to F32: the step still starts from them.
            (
                DType::F16 | DType::BF16,
                Masters::None | Masters::Stochastic,
                ListMaster::Parameter,
            ) => (parameter, None, false),
            (DType::F16 | DType::BF16, Masters::None | Masters::Stochastic, master) => {
                let weights = master.weights_of(parameter.clone());
                (parameter, Some(Master::F32(weights)), false)
            }
            (DType::F32, _, ListMaster::F32(master)) => (master, None, false),
            (_, _, _) => (parameter, None, false),
        }
    }

    /// Returns as many moments as the rule has, in a format.
    fn moments_in<B: AmpBackend>(
        self,
        format: MomentFormat,
        parameter: &FloatTensor<B>,
        time: usize,
        moments: Vec<Moment<B>>,
    ) -> Vec<Moment<B>> {
        let wide = precision::of(parameter).join(Precision::F32);
        let dtype = precision::to_float(wide);
        let (shape, device) = (parameter.shape(), B::float_device(parameter));
        let in_format = |moment: Moment<B>, place: Place| {
            if moment.format() == format && format != MomentFormat::Wide {
                return moment;
            }
            let moment = moment.widened(shape.clone(), precision::to_burn(wide), place);
            // A state in another format is rounded to the nearest, once.
            Moment::rounded(moment, format, place, None)
        };
        let mut moments = moments.into_iter();
        let moments = (0..self.rule.moments()).map(|at| match moments.next() {
            Some(moment) => in_format(moment, Place::at(at)),
            None if time == 0 => Moment::undefined(format, shape.clone(), dtype, &device),
            // Adam had no largest second moment before: its next is the largest.
            None => {
                let zeros = B::float_zeros(shape.clone(), &device, dtype);
                in_format(Moment::Wide(zeros), Place::at(at))
            }
        });
        moments.collect()
    }

    /// Returns the parameter after a step in the form in which it is stored, and its state.
    fn ended<B: AmpBackend>(
        self,
        state: ListState<B>,
        keeps_master: bool,
        stepped: Stepped<B>,
    ) -> (FloatTensor<B>, Option<ListState<B>>) {
        let Stepped {
            parameter,
            master,
            moments,
            low: _,
        } = stepped;
        let master = match master.filter(|_| keeps_master) {
            None => ListMaster::Parameter,
            Some(Master::F32(master)) => ListMaster::F32(master),
            Some(Master::Offset(offset)) => ListMaster::Offset(offset),
        };
        let state = ListState {
            master,
            moments,
            ..state
        };
        let is_empty = state.moments.is_empty() && matches!(state.master, ListMaster::Parameter);
        (parameter, (!is_empty).then_some(state))
    }
}

/// The parameters of a device whose gradients share all factors that are on the device.
struct ParameterList<B: AmpBackend> {
    device: Device<B>,
    factors: Factors<B>,
    waiting: Vec<Waiting<B>>,
    parameters: Vec<Listed<B>>,
}

impl<B: AmpBackend> ParameterList<B> {
    fn new(device: Device<B>, factors: Factors<B>) -> Self {
        Self {
            device,
            factors,
            waiting: Vec::new(),
            parameters: Vec::new(),
        }
    }

    fn takes(&self, device: &Device<B>, factors: &Factors<B>) -> bool {
        let pass = |factors: &Factors<B>| factors.pass.as_ref().map(Arc::as_ptr);
        let clip = |factors: &Factors<B>| factors.clip.as_ref().map(Arc::as_ptr);
        self.device == *device
            && pass(&self.factors) == pass(factors)
            && clip(&self.factors) == clip(factors)
    }
}

/// Returns the low dtype in which the next forward pass will read a parameter, if ops have read it in one and it is stored
/// in another.
fn low_copy<B: AmpBackend>(parameter: &AmpTensor<B>) -> Option<Precision> {
    let low = parameter.role.origin()?.lowered()?;
    (parameter.stored() == Precision::F32).then_some(low)
}

/// Wraps the values of a parameter after a step, with their copy in low precision.
fn wrapped<B: AmpBackend>(
    parameter: FloatTensor<B>,
    low: Option<FloatTensor<B>>,
    context: &'static Context<B>,
) -> AmpTensor<B> {
    AmpTensor::of(Parts {
        logical: precision::of(&parameter),
        values: parameter,
        context,
        role: Role::Activation,
        recorded: match low {
            Some(low) => Recorded::of_lowered(precision::of(&low), low),
            None => Recorded::nothing(),
        },
    })
}

/// Returns the key of the random numbers that a parameter draws in a step.
fn key(seed: u64, id: ParamId, time: usize) -> u32 {
    let halves = |number: u64| [number as u32, (number >> 32) as u32];
    let words = [seed, id.val(), time as u64].map(halves);
    words
        .as_flattened()
        .iter()
        .fold(0, |key, word| mixed(key ^ word))
}

/// Returns a state of the loss scale that says whether one of the passes overflowed; `None` if there are none.
fn overflowed_state<B: AmpBackend>(
    passes: &Passes<B>,
    device: &Device<B>,
) -> Option<FloatTensor<B>> {
    let states = passes.iter();
    let states = states.map(|pass| B::float_to_device(pass.after.clone(), device));
    // The flags are 0 or 1, so their sum is positive if one of them is.
    states.reduce(B::float_add)
}
