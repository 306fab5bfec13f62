//! The optimizer that steps all parameters together: Adam, AdamW and SGD, over tensors of the plain backend.
//!
//! * [`state`]: what is kept for a parameter; [`item`]: the same in a file
//! * [`masters`], [`moments`]: the forms in which masters and moments are kept
//! * [`clipping`]: the global norm of all gradients, and clipping by it; [`gradient_norm`]: the norm for whoever asks
//! * [`looked`]: a step whose gradients and updates are looked at
//! * [`prepared`]: a parameter on its way into the step, and out of it
//! * `erased`: the step for a caller who cannot name the backend, as none can from Burn 0.22 on

mod clipping;
#[cfg(burn_0_22)]
pub mod erased;
mod gradient_norm;
mod item;
mod looked;
mod masters;
mod moments;
mod prepared;
mod state;

use std::sync::Arc;

use burn_amp_kernels::{
    self as kernels, AmpBackend,
    optimizer::{ListStep, ListedOf, Rule},
};
use burn_backend::{
    TensorMetadata,
    tensor::{Device, FloatTensor},
};

pub use clipping::{Clipping, norm, norm_factor};
pub use gradient_norm::GradientNorm;
pub use item::{ListItem, Misfit};
pub use masters::Masters;
pub use moments::Moments;
pub use state::ListState;

use looked::StepLook;
use prepared::Waiting;

use crate::{
    loss_scale::Passes,
    tensor::{AmpTensor, Factors},
};

/// An optimizer that steps all parameters together. The states of the parameters are the caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListOptimizer {
    /// The optimizer, with its constants.
    pub rule: Rule,
    /// The form of the masters of parameters in half precision.
    pub masters: Masters,
    /// The format of the moments.
    pub moments: Moments,
    /// The seed of stochastic rounding.
    pub seed: u64,
}

/// A parameter of a step.
pub struct Parameter<B: AmpBackend> {
    /// A number of its own, which the random numbers that it draws depend on.
    pub id: u64,
    /// Whether it is one of a norm or an embedding.
    pub keeps_more: bool,
    /// The parameter.
    pub tensor: AmpTensor<B>,
    /// Its gradient.
    pub gradient: AmpTensor<B>,
    /// Its state; `None` before its first step.
    pub state: Option<ListState<B>>,
}

/// A parameter after a step.
pub struct SteppedParameter<B: AmpBackend> {
    /// The parameter, with its copy in low precision if ops read it in one.
    pub tensor: AmpTensor<B>,
    /// Its state; `None` if there is nothing to keep.
    pub state: Option<ListState<B>>,
}

impl ListOptimizer {
    /// Makes a step. If one of the passes, from which the gradients were computed, overflowed, the device leaves everything as
    /// it is. Returns the parameters in the order in which they were given.
    pub fn step<B: AmpBackend>(
        &self,
        lr: f64,
        parameters: Vec<Parameter<B>>,
        passes: &Passes<B>,
    ) -> Vec<SteppedParameter<B>> {
        let mut all: Vec<Option<SteppedParameter<B>>> = Vec::new();
        all.resize_with(parameters.len(), || None);
        let mut lists: Vec<ParameterList<B>> = Vec::new();
        let mut looked = StepLook::begin(&parameters);
        for (at, parameter) in parameters.into_iter().enumerate() {
            let device = parameter.tensor.device();
            let shape = parameter.tensor.shape();
            let origin = looked.as_ref().and_then(|_| parameter.tensor.role.origin());
            let named = (parameter.id, origin.map(|origin| origin.name().clone()));
            let (waiting, listed, factors) = self.prepared(parameter, shape, &device, passes);
            if let Some(looked) = &mut looked {
                looked.before(at, named, &listed, &factors);
            }
            let list = lists.iter().position(|list| list.takes(&device, &factors));
            let list = list.unwrap_or_else(|| {
                lists.push(ParameterList {
                    device,
                    factors,
                    waiting: Vec::new(),
                    parameters: Vec::new(),
                });
                lists.len() - 1
            });
            lists[list].waiting.push((at, waiting));
            lists[list].parameters.push(listed);
        }
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
                unless_overflowed: overflowed_state(passes, &device),
                clip: factors.clip.map(|clip| here(&clip)),
                parameters,
            });
            for ((at, waiting), stepped) in waiting.into_iter().zip(stepped) {
                if let Some(looked) = &mut looked {
                    looked.after(at, &stepped);
                }
                all[at] = Some(waiting.ended(stepped));
            }
        }
        if let Some(looked) = looked {
            looked.end();
        }
        all.into_iter().flatten().collect()
    }
}

/// The parameters of a device whose gradients share all factors that are on the device.
struct ParameterList<B: AmpBackend> {
    device: Device<B>,
    factors: Factors<B>,
    /// The parameters, each with its place among all.
    waiting: Vec<(usize, Waiting<B>)>,
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
