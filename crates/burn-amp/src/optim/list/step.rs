//! The step of the parameters that were taken out of a model.

use burn::{module::ParamId, optim::LearningRate};
use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{ListStep, Listed, Rule, Stepped},
};
use burn_backend::{
    DType, TensorMetadata,
    tensor::{Device, FloatTensor},
};
use hashbrown::HashMap;

use super::{
    super::Masters,
    state::{ListMaster, ListState, split},
    walk::{self, Taken, TakenAll},
};
use crate::{
    graph::Recorded,
    loss_scale::Passes,
    precision,
    tensor::{AmpTensor, Nature},
};

/// An optimizer that steps all parameters together.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListOptimizer {
    pub(super) rule: Rule,
    pub(super) masters: Masters,
}

/// A parameter that waits for its step.
struct Waiting<B: AmpBackend> {
    taken: Taken<B>,
    /// Its state before the step, without what the step takes.
    state: ListState<B>,
    form: Form,
}

/// The form in which the weights of a parameter are kept.
#[derive(Clone, Copy)]
enum Form {
    /// As they are stepped.
    Parameter,
    /// A low parameter beside an F32 master.
    Master,
    /// A BF16 parameter and an offset.
    Split,
}

impl ListOptimizer {
    /// Makes a step; if one of the passes overflowed, the device leaves everything as it is.
    pub(super) fn step<B: AmpBackend>(
        self,
        lr: LearningRate,
        taken: TakenAll<B>,
        states: &mut HashMap<ParamId, ListState<B>>,
    ) -> walk::Stepped<B> {
        let TakenAll { parameters, passes } = taken;
        let mut lists: Vec<(Device<B>, Vec<Waiting<B>>, Vec<Listed<B>>)> = Vec::new();
        for taken in parameters {
            let device = B::float_device(&taken.parameter.inner);
            let state = states.remove(&taken.id).and_then(ListState::decided);
            let state = state.unwrap_or_else(ListState::new).on_device(&device);
            let (waiting, listed) = self.listed(taken, state, &passes);
            match lists.iter_mut().find(|(other, ..)| *other == device) {
                Some((_, all, list)) => {
                    all.push(waiting);
                    list.push(listed);
                }
                None => lists.push((device, vec![waiting], vec![listed])),
            }
        }
        let mut all = walk::Stepped::new();
        for (device, waiting, parameters) in lists {
            let stepped = B::optimizer_step(ListStep {
                rule: self.rule,
                lr,
                scaled_by: None,
                unless_overflowed: overflowed_state(&passes, &device),
                clip: None,
                parameters,
            });
            for (waiting, stepped) in waiting.into_iter().zip(stepped) {
                let Waiting { taken, state, form } = waiting;
                let (parameter, state) = self.ended(state, form, stepped);
                if let Some(state) = state {
                    states.insert(taken.id, state);
                }
                let parameter = wrapped(parameter, &taken.parameter);
                all.insert(taken.id, (parameter, taken.flags));
            }
        }
        all
    }

    /// Prepares a parameter and its state.
    fn listed<B: AmpBackend>(
        self,
        mut taken: Taken<B>,
        state: ListState<B>,
        passes: &Passes<B>,
    ) -> (Waiting<B>, Listed<B>) {
        let ListState {
            time,
            undecided: _,
            master,
            moments,
        } = state;
        let parameter = taken.parameter.inner.clone();
        // The step may write to the parameter only if nobody else holds it.
        taken.parameter.inner = taken.gradient.inner.clone();
        let (parameter, master, form) = self.weights::<B>(parameter, master);
        let moments = self.moments::<B>(&parameter, time, moments);
        let gradient = match taken.gradient.nature {
            Nature::Gradient(_) => taken.gradient.inner.clone(),
            _ => taken.gradient.clone().in_f32().inner,
        };
        let time = time + 1;
        let listed = Listed {
            parameter,
            gradient,
            factor: 1.0,
            master,
            moments,
            time: i32::try_from(time).unwrap_or(i32::MAX),
            low: None,
        };
        let state = ListState {
            time,
            undecided: passes.clone(),
            ..ListState::new()
        };
        (Waiting { taken, state, form }, listed)
    }

    /// Returns the tensor that the step reads and writes as the parameter, and a separate master.
    fn weights<B: AmpBackend>(
        self,
        parameter: FloatTensor<B>,
        master: ListMaster<B>,
    ) -> (FloatTensor<B>, Option<FloatTensor<B>>, Form) {
        match (parameter.dtype(), self.masters, master) {
            (DType::BF16, Masters::Split, master) => {
                (master.weights_of(parameter), None, Form::Split)
            }
            (DType::F16 | DType::BF16, Masters::F32 | Masters::Split, master) => {
                let weights = master.weights_of(parameter.clone());
                (parameter, Some(weights), Form::Master)
            }
            // Masters are no longer kept, or the model was converted back to F32: the step still starts from them.
            (DType::F16 | DType::BF16, Masters::None, ListMaster::Parameter) => {
                (parameter, None, Form::Parameter)
            }
            (DType::F16 | DType::BF16, Masters::None, master) => {
                let weights = master.weights_of(parameter.clone());
                (parameter, Some(weights), Form::Parameter)
            }
            (DType::F32, _, ListMaster::F32(master)) => (master, None, Form::Parameter),
            (_, _, _) => (parameter, None, Form::Parameter),
        }
    }

    /// Returns as many moments as the rule has, in the dtype in which a step computes.
    fn moments<B: AmpBackend>(
        self,
        parameter: &FloatTensor<B>,
        time: usize,
        moments: Vec<FloatTensor<B>>,
    ) -> Vec<FloatTensor<B>> {
        let wide = precision::of(parameter).join(Precision::F32);
        let dtype = precision::to_float(wide);
        let (shape, device) = (parameter.shape(), B::float_device(parameter));
        let mut moments = moments.into_iter();
        let moments = (0..self.rule.moments()).map(|_| match moments.next() {
            Some(moment) => precision::cast::<B>(moment, wide),
            None if time == 0 => B::float_empty(shape.clone(), &device, dtype),
            // Adam had no largest second moment before: its next is the largest.
            None => B::float_zeros(shape.clone(), &device, dtype),
        });
        moments.collect()
    }

    /// Returns the parameter after a step in the form in which it is stored, and its state.
    fn ended<B: AmpBackend>(
        self,
        state: ListState<B>,
        form: Form,
        stepped: Stepped<B>,
    ) -> (FloatTensor<B>, Option<ListState<B>>) {
        let Stepped {
            parameter,
            master,
            moments,
            low: _,
        } = stepped;
        let (parameter, master) = match (form, master) {
            (Form::Parameter, _) => (parameter, ListMaster::Parameter),
            (Form::Split, _) => {
                let (parameter, offset) = split::<B>(parameter);
                (parameter, ListMaster::Offset(offset))
            }
            (Form::Master, Some(master)) => (parameter, ListMaster::F32(master)),
            (Form::Master, None) => unreachable!("a step returns the masters that it was given"),
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

/// Wraps the values of a parameter after a step.
fn wrapped<B: AmpBackend>(parameter: FloatTensor<B>, before: &AmpTensor<B>) -> AmpTensor<B> {
    AmpTensor {
        logical: precision::of(&parameter),
        inner: parameter,
        context: before.context,
        nature: Nature::Plain,
        recorded: Recorded::nothing(),
    }
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
