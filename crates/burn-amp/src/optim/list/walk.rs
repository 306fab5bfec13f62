//! Taking the parameters and gradients out of a model, and putting the parameters back.
//!
//! Burn visits a model parameter by parameter, and a step needs all of them at once. Between the two walks each
//! parameter is replaced by the first gradient, which costs nothing, so that nobody but the step holds the parameters, and it
//! can update them in place.

use std::marker::PhantomData;

use burn::{
    grad_clipping::GradientClipping,
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::GradientsParams,
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_kernels::AmpBackend;
#[cfg(feature = "distributed")]
use burn_backend::distributed::DistributedParamId;
use hashbrown::HashMap;

use super::PlainOf;
use crate::modules::Modules;
use burn_amp_decorator::{AmpTensor, Amped, Trains, internal::Passes, optimizer::Parameter};

/// The parameters that a step changes, and the backward passes that their gradients were computed from.
pub(super) struct TakenAll<P: AmpBackend> {
    pub(super) parameters: Vec<Parameter<P>>,
    /// The parameters' facts, in the same order.
    pub(super) facts: Vec<(ParamId, Facts)>,
    pub(super) passes: Passes<P>,
}

/// What a parameter is besides its values.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    requires_grad: bool,
    #[cfg(feature = "distributed")]
    is_distributed: bool,
}

/// The parameters after a step.
pub(super) type SteppedParameters<P> = HashMap<ParamId, (AmpTensor<P>, Facts)>;

/// Takes the parameters that have gradients out of a model; the model is unusable until they are put back.
///
/// The gradients are clipped one by one if the optimizer's configuration says so.
pub(super) fn take<M: AutodiffModule<B>, B: Trains>(
    module: M,
    grads: &mut GradientsParams,
    clipping: Option<&GradientClipping>,
) -> (M, TakenAll<PlainOf<B>>) {
    let mut take = Take::<B> {
        grads,
        clipping,
        modules: Modules::default(),
        placeholder: None,
        taken: TakenAll {
            parameters: Vec::new(),
            facts: Vec::new(),
            passes: Passes::none(),
        },
    };
    let module = module.map(&mut take);
    (module, take.taken)
}

struct Take<'a, B: AutodiffBackend<InnerBackend: Amped>> {
    grads: &'a mut GradientsParams,
    clipping: Option<&'a GradientClipping>,
    modules: Modules,
    /// What stands in the place of the parameters.
    placeholder: Option<AmpTensor<PlainOf<B>>>,
    taken: TakenAll<PlainOf<B>>,
}

impl<B: Trains> ModuleMapper<B> for Take<'_, B> {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.enter(container_type);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let Some(grad) = self.grads.remove::<B::InnerBackend, D>(param.id) else {
            return param;
        };
        let (id, parameter, mapper) = param.consume();
        let facts = Facts {
            requires_grad: parameter.is_require_grad(),
            #[cfg(feature = "distributed")]
            is_distributed: parameter.is_distributed(),
        };
        let device = grad.device();
        let parameter = if parameter.device() == device {
            parameter
        } else {
            parameter.to_device(&device)
        };
        let grad = match self.clipping {
            Some(clipping) => clipping.clip_gradient(grad),
            None => grad,
        };
        let grad = grad.into_primitive().tensor();
        if let Some(passes) = grad.role.gradient() {
            self.taken.passes.join(passes);
        }
        let placeholder = self.placeholder.get_or_insert_with(|| grad.placeholder());
        let placeholder = Tensor::from_primitive(TensorPrimitive::Float(placeholder.clone()));
        self.taken.parameters.push(Parameter {
            id: id.val(),
            keeps_more: self.modules.keeps_more(),
            tensor: parameter.inner().into_primitive().tensor(),
            gradient: grad,
            state: None,
        });
        self.taken.facts.push((id, facts));
        Param::from_mapped_value(id, Tensor::from_inner(placeholder), mapper)
    }
}

/// Puts the parameters back into the model that they were taken from.
pub(super) fn put<M: AutodiffModule<B>, B: Trains>(
    module: M,
    stepped: SteppedParameters<PlainOf<B>>,
) -> M {
    module.map(&mut Put::<B> {
        stepped,
        backend: PhantomData,
    })
}

struct Put<B: AutodiffBackend<InnerBackend: Amped>> {
    stepped: SteppedParameters<PlainOf<B>>,
    backend: PhantomData<B>,
}

impl<B: Trains> ModuleMapper<B> for Put<B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        // A parameter that is in the model twice was taken at its first place only.
        let Some((parameter, facts)) = self.stepped.remove(&param.id) else {
            return param;
        };
        let (id, _, mapper) = param.consume();
        let mut tensor =
            Tensor::from_inner(Tensor::from_primitive(TensorPrimitive::Float(parameter)));
        if facts.requires_grad {
            tensor = tensor.require_grad();
        }
        #[cfg(feature = "distributed")]
        if facts.is_distributed {
            tensor = tensor.set_distributed(DistributedParamId::from(id.val()));
        }
        Param::from_mapped_value(id, tensor, mapper)
    }
}
