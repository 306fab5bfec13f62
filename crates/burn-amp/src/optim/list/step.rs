//! The step of the parameters that were taken out of a model.

use std::sync::Arc;

use burn::{grad_clipping::GradientClipping, module::ParamId, optim::LearningRate};
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    optimizer::{ListStep, ListedOf, Rule},
};
use burn_backend::{
    TensorMetadata,
    tensor::{Device, FloatTensor},
};
use hashbrown::HashMap;

use super::{
    super::{Masters, Moments},
    prepared::Waiting,
    state::ListState,
    walk::{SteppedParameters, TakenAll},
};
use burn_amp_decorator::internal::{Factors, Passes};

/// An optimizer that steps all parameters together.
#[derive(Clone)]
pub(super) struct ListOptimizer<B: AmpBackend> {
    pub(super) rule: Rule,
    pub(super) masters: Masters,
    pub(super) moments: Moments,
    /// The seed of stochastic rounding.
    pub(super) seed: u64,
    /// The clipping of each parameter's gradient that the configuration asks for.
    pub(super) clipping: Option<GradientClipping>,
    pub(super) states: HashMap<ParamId, ListState<B>>,
}

impl<B: AmpBackend> ListOptimizer<B> {
    /// Makes a step; if one of the passes overflowed, the device leaves everything as it is.
    pub(super) fn step(&mut self, lr: LearningRate, taken: TakenAll<B>) -> SteppedParameters<B> {
        let TakenAll { parameters, passes } = taken;
        let mut lists: Vec<ParameterList<B>> = Vec::new();
        for taken in parameters {
            let device = taken.parameter.device();
            let state = self.states.remove(&taken.id).and_then(ListState::decided);
            let state = state.unwrap_or_else(|| ListState::new(taken.parameter.shape()));
            let (waiting, listed, factors) =
                self.prepared(taken, state.on_device(&device), &passes);
            let at = lists.iter().position(|list| list.takes(&device, &factors));
            let at = at.unwrap_or_else(|| {
                lists.push(ParameterList {
                    device,
                    factors,
                    waiting: Vec::new(),
                    parameters: Vec::new(),
                });
                lists.len() - 1
            });
            lists[at].waiting.push(waiting);
            lists[at].parameters.push(listed);
        }
        let mut all = SteppedParameters::new();
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
                let (id, facts) = (waiting.id, waiting.facts);
                let (parameter, state) = waiting.ended(stepped);
                if !state.is_empty() {
                    self.states.insert(id, state);
                }
                all.insert(id, (parameter, facts));
            }
        }
        all
    }
}

/// The parameters of a device whose gradients share all factors that are on the device.
struct ParameterList<B: AmpBackend> {
    device: Device<B>,
    factors: Factors<B>,
    waiting: Vec<Waiting<B>>,
    parameters: Vec<ListedOf<B>>,
}

impl<B: AmpBackend> ParameterList<B> {
    fn takes(&self, device: &Device<B>, factors: &Factors<B>) -> bool {
        let pass = |factors: &Factors<B>| factors.pass.as_ref().map(Arc::as_ptr);
        let clip = |factors: &Factors<B>| factors.clip.as_ref().map(Arc::as_ptr);
        self.device == *device
            && pass(&self.factors) == pass(factors)
            && clip(&self.factors) == clip(factors)
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
