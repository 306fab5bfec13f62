//! A step of the optimizer that is looked at: what the gradients are like, and which updates rounding swallows.

use burn_amp_core::{
    Precision,
    health::{Counts, Look, ParameterHealth, Updates},
};
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{ListedOf, Master, MasterOf, Place, SteppedOf, weights, widened},
};
use burn_backend::{Element, TensorData, TensorMetadata, tensor::FloatTensor};

use super::Parameter;
use crate::{param_name::ParamName, policy::Context, precision, tensor::Factors};

/// A step that is looked at.
pub(super) struct StepLook<B: AmpBackend> {
    context: &'static Context<B>,
    look: Look,
    /// The parameters, by their places in the step.
    before: Vec<Before<B>>,
}

/// A parameter before its step.
struct Before<B: AmpBackend> {
    at: usize,
    id: u64,
    name: Option<ParamName>,
    stored: Precision,
    gradient: FloatTensor<B>,
    /// The master, or the parameter if it is its own.
    weights: FloatTensor<B>,
}

impl<B: AmpBackend> StepLook<B> {
    /// Begins to look at a step of parameters, if the configuration of their device asks for it.
    pub(super) fn begin(parameters: &[Parameter<B>]) -> Option<Self> {
        let first = parameters.first()?;
        let context = first.tensor.context;
        let step = context.health.begins(first.id)?;
        let scale = || context.scaling().host.progress().scale();
        Some(Self {
            context,
            look: Look {
                optimizer: first.id,
                step,
                scale: context.scales_losses().then(scale),
                clip: None,
                parameters: Vec::new(),
            },
            before: Vec::new(),
        })
    }

    /// Sees a parameter that is about to step. Incurs a device-to-host read of a factor of clipping.
    pub(super) fn before(
        &mut self,
        at: usize,
        (id, name): (u64, Option<ParamName>),
        listed: &ListedOf<B>,
        factors: &Factors<B>,
    ) {
        if let (Some(clip), None) = (&factors.clip, self.look.clip) {
            let clip = precision::read::<B>(clip.as_ref().clone());
            self.look.clip = clip.iter::<f64>().next();
        }
        self.before.push(Before {
            at,
            id,
            name,
            stored: precision::of(&listed.parameter),
            gradient: listed.gradient.clone(),
            weights: stored::<B>(&listed.master, &listed.parameter),
        });
    }

    /// Sees a parameter that has stepped. Incurs device-to-host reads of the gradient, the first moment, and the weights before
    /// and after the step.
    pub(super) fn after(&mut self, at: usize, stepped: &SteppedOf<B>) {
        let Some(found) = self.before.iter().position(|before| before.at == at) else {
            return;
        };
        let before = self.before.swap_remove(found);
        let wide = precision::of(&before.weights).join(Precision::F32);
        let moment = stepped.moments.first().cloned().map(|moment| {
            let shape = before.weights.shape();
            widened::<B>(moment, shape, precision::to_burn(wide), Place::at(0))
        });
        let after = stored::<B>(&stepped.master, &stepped.parameter);
        let moment = moment.unwrap_or_else(|| before.gradient.clone());
        let read = [before.weights, after, before.gradient, moment].map(precision::read::<B>);
        let compute = self.context.policy.compute();
        let (gradient, update) = match wide {
            Precision::F64 => counted::<f64>(read, compute),
            _ => counted::<f32>(read, compute),
        };
        let name = before.name.and_then(|name| name.get().map(str::to_owned));
        self.look.parameters.push(ParameterHealth {
            id: before.id,
            name: name.unwrap_or_else(|| format!("#{at}")),
            stored: before.stored,
            gradient,
            update,
        });
    }

    /// Ends the look.
    pub(super) fn end(self) {
        self.context.health.add(self.look);
    }
}

/// Counts in a parameter before and after its step, its gradient, and what moves it besides the gradient.
fn counted<E: Element + Into<f64>>(read: [TensorData; 4], compute: Precision) -> (Counts, Updates) {
    let read = read.map(|data| data.convert::<E>());
    let [old, new, gradient, moment] = read.each_ref().map(|data| {
        let values = data.as_slice::<E>().expect("the values are of this dtype");
        values.iter().map(|x| (*x).into())
    });
    let counts = Counts::of(gradient.clone(), compute);
    if counts.not_finite > 0 {
        // The device has left everything as it was.
        return (counts, Updates::default());
    }
    let is_due = gradient
        .zip(moment)
        .map(|(gradient, moment)| gradient != 0.0 || moment != 0.0);
    let moved = old.zip(new).map(|(old, new)| old != new);
    (counts, Updates::of(is_due.zip(moved)))
}

/// What a step changes: the master, or the parameter in its own dtype.
fn stored<B: AmpBackend>(master: &MasterOf<B>, parameter: &FloatTensor<B>) -> FloatTensor<B> {
    match master {
        Master::Parameter => parameter.clone(),
        Master::F32(_) | Master::Offset(_) => weights::<B>(master.clone(), parameter.clone()),
    }
}
