//! `AutodiffBackend` for [`Amp`]: what `loss.backward()` and `tensor.grad(&grads)` call.

use std::sync::Arc;

use burn_amp_core::{Config, Preset};
use burn_amp_kernels::names::device_of;
use burn_autodiff::Autodiff;
use burn_backend::{
    AutodiffBackend, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor},
};

use super::{
    flushed::Looked,
    gradients::{Gradients, Pass},
    located, on_device, on_host,
    scaled::{self, Root},
};
use crate::{
    backend::Amp,
    cast::watchers,
    diagnose::every_pass,
    distributed::Trainable,
    graph::{NoGraph, Recorded, Records, Stepped},
    policy::ConfigSource,
    precision, ranks, site,
    tensor::{AmpTensor, Parts, Reader, Role},
    warn,
};

impl<B: Trainable, P: ConfigSource, G: Records<B>> AutodiffBackend for Amp<B, P, G> {
    type InnerBackend = Amp<B, P, NoGraph>;
    type Gradients = Gradients<B>;

    /// If the loss is scaled, incurs one device-to-host read for each device with gradients; with `loss_scale.sync =
    /// false`, or without loss scaling, none.
    fn backward(root: FloatTensor<Self>) -> Gradients<B> {
        let (context, id) = (root.context, root.recorded.id);
        // A root that waits is computed, as any op would read it.
        let dtype = root.exact_dtype();
        let mut inner = root.read(dtype, Reader::Cut);
        if context.policy.compute().is_low() && !G::is_tracked(&inner) {
            // What burn-amp computed beside the graph has no node in it. The result of an op has one, as Burn expects.
            inner = G::Inner::float_mul_scalar(inner, 1.0.into());
        }
        watchers::backward_begins();
        every_pass::begins(context, || B::name(&device_of::<B>(&inner.primitive)));
        let stored = precision::of(&inner.primitive);
        if stored.is_low() && lowers_losses_by_mistake(&context.config) {
            warn::of_low_loss(stored, site::here);
        }
        context.leaves.count_pass();
        context.check_preset();
        let _looked = Looked::at(context);
        let scaling = context.scaling();
        if let Some(rule) = scaling.on_device() {
            if !ranks::has_joined(context) {
                let loss = located::loss(context, &inner.primitive, id);
                let gradients = on_device::backward::<B, P, G::Strategy>(inner, scaling, rule);
                let scale = || Some(gradients.scale());
                located::tell(located::end_of_step(context, loss, scale, &gradients.inner));
                context
                    .locator
                    .next_step(scaling.host.progress().skipped_steps);
                return gradients;
            }
            // The ranks of a data-parallel run agree on the host, so the scale moves there from now on.
            scaling.move_to_host();
        }
        match scaling.host.scale() {
            Some(scale) => {
                let gradients =
                    on_host::backward::<B, P, G::Strategy>(inner, id, context, scaling, scale);
                context
                    .locator
                    .next_step(scaling.host.progress().skipped_steps);
                gradients
            }
            None => {
                let loss = located::loss(context, &inner.primitive, id);
                let gradients = if context.policy.compute().is_low() && G::is_tracked(&inner) {
                    let root = Root::<B, G::Strategy>::of(&inner);
                    // A node above the loss, so that a graph that was consumed is found out, as a scaled loss is one. Where
                    // nothing is lowered, the pass costs what it costs without burn-amp, and Burn names the mistake.
                    scaled::backward(&root, G::probed(inner, Arc::new(|_| ())))
                } else {
                    scaled::pass::<B, G::Strategy>(inner)
                };
                located::tell(located::end_of_step(context, loss, || None, &gradients));
                Gradients {
                    inner: gradients,
                    pass: Pass::UNSCALED,
                }
            }
        }
    }

    /// After an overflow this is zeros: whoever looks at one gradient usually unwraps it, and a step made by hand from
    /// zeros is no step.
    fn grad(
        tensor: &FloatTensor<Self>,
        grads: &Gradients<B>,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        if !tensor.may_have_gradient() {
            return None;
        }
        let gradient = tensor.in_graph().grad(&grads.inner)?;
        let unscaled = grads.pass.unscale_for(tensor, gradient.clone());
        unscaled.or_else(|| Some(Pass::zeros(&gradient, tensor.context)))
    }

    /// After an overflow this is `None`: an optimizer leaves a parameter without a gradient as it is.
    fn grad_remove(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients<B>,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        if !tensor.may_have_gradient() {
            return None;
        }
        let gradient = tensor.in_graph().grad_remove(&mut grads.inner)?;
        grads.pass.unscale_for(tensor, gradient)
    }

    fn grad_replace(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients<B>,
        grad: FloatTensor<Self::InnerBackend>,
    ) {
        let dtype = grad.exact_dtype();
        let grad = grad.read(dtype, Reader::Cut);
        let scaled = grads.pass.scale(grad, tensor.stored());
        tensor.in_graph().grad_replace(&mut grads.inner, scaled);
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<Self::InnerBackend> {
        let Parts {
            values,
            logical,
            context,
            role,
            recorded: _,
        } = tensor.apart();
        let is_lowered = context.policy.compute().is_low() && matches!(role, Role::Leaf(_));
        AmpTensor::of(Parts {
            values: values.primitive,
            logical,
            context,
            role: role.after_move(),
            recorded: if is_lowered {
                Recorded::sharing(0)
            } else {
                Recorded::nothing()
            },
        })
    }

    fn int_inner(tensor: IntTensor<Self>) -> IntTensor<Self::InnerBackend> {
        tensor
    }

    fn bool_inner(tensor: BoolTensor<Self>) -> BoolTensor<Self::InnerBackend> {
        tensor
    }

    fn q_inner(tensor: QuantizedTensor<Self>) -> QuantizedTensor<Self::InnerBackend> {
        tensor
    }

    /// A tensor that enters a graph is no longer treated as a gradient: ops on it follow the policy. It keeps its values in
    /// low precision, if it has them.
    fn from_inner(tensor: FloatTensor<Self::InnerBackend>) -> FloatTensor<Self> {
        let parts = tensor.apart();
        let stepped = match &parts.role {
            Role::Gradient(passes) => Some(Stepped::by(passes, || parts.values.shape())),
            _ => None,
        };
        let mut recorded = match parts.recorded.lowered() {
            Some((to, values)) => Recorded::of_lowered(to, values),
            None => AmpTensor::<B, G>::recorded(parts.context, 0),
        };
        recorded.stepped = stepped;
        AmpTensor::of(Parts {
            values: Autodiff::<B, G::Strategy>::from_inner(parts.values),
            logical: parts.logical,
            context: parts.context,
            role: Role::Activation,
            recorded,
        })
    }

    fn int_from_inner(tensor: IntTensor<Self::InnerBackend>) -> IntTensor<Self> {
        tensor
    }

    fn bool_from_inner(tensor: BoolTensor<Self::InnerBackend>) -> BoolTensor<Self> {
        tensor
    }

    fn q_from_inner(tensor: QuantizedTensor<Self::InnerBackend>) -> QuantizedTensor<Self> {
        tensor
    }

    #[cfg(feature = "distributed")]
    fn set_distributed_params(
        tensor: FloatTensor<Self>,
        param_id: burn_backend::distributed::DistributedParamId,
    ) -> FloatTensor<Self> {
        let parts = tensor.apart();
        AmpTensor::of(Parts {
            values: Autodiff::<B, G::Strategy>::set_distributed_params(parts.values, param_id),
            ..parts
        })
    }

    #[cfg(feature = "distributed")]
    fn distributed_params(
        tensor: &FloatTensor<Self>,
    ) -> Option<burn_backend::distributed::DistributedParams> {
        Autodiff::<B, G::Strategy>::distributed_params(&tensor.in_graph())
    }

    #[cfg(feature = "distributed")]
    fn is_distributed(tensor: &FloatTensor<Self>) -> bool {
        Autodiff::<B, G::Strategy>::is_distributed(&tensor.in_graph())
    }
}

/// Whether a loss in low precision is nothing that the configuration asks for: `o3` does.
fn lowers_losses_by_mistake(config: &Config) -> bool {
    match config.preset {
        Preset::O0 | Preset::O1 | Preset::O2 => true,
        Preset::O3 => false,
    }
}
