//! Scaled autodiff: the loss is scaled, the gradients are checked and unscaled, the training loop does not know.
//!
//! ```text
//! backward:     loss in F32 × scale → Burn's backward pass → one flag per leaf gradient → one read → the scale moves
//! grad_remove:  gradient in F32 × 1/scale, or nothing after an overflow
//! ```

use std::sync::Arc;

use burn_amp_core::{Dtype, DynamicLossScale, Outcome};
use burn_amp_kernels::Kernels;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{
    AutodiffBackend, Backend, TensorMetadata,
    ops::FloatTensorOps,
    read_sync,
    tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor},
};

use crate::{
    Amp, AmpTensor, PolicySource,
    context::Context,
    deferred::{DeferredPass, Passes},
    distributed::Trainable,
    dtype,
    graph::{NoGraph, Tape},
    leaf::LeafGradient,
    ranks,
    scaler::{DeviceScale, Overflow},
};

/// The gradients of a backward pass, still scaled, and whether they may be used.
pub struct Gradients<B: Kernels> {
    inner: burn_autodiff::grads::Gradients,
    pass: Pass<B>,
}

/// What is known of a backward pass.
enum Pass<B: Kernels> {
    Checked { scale: f32, outcome: Outcome },
    Deferred(Arc<DeferredPass<B>>),
}

impl<B: Kernels> Gradients<B> {
    /// The factor that the stored gradients carry. Waits for the device with `loss_scale.sync = false`.
    pub fn scale(&self) -> f32 {
        match &self.pass {
            Pass::Checked { scale, .. } => *scale,
            Pass::Deferred(pass) => pass.wait().0,
        }
    }

    /// Whether all gradients were finite. After an overflow no gradient is handed out.
    ///
    /// With `loss_scale.sync = false` it waits for the device, and gradients are handed out as zeros after an overflow.
    pub fn outcome(&self) -> Outcome {
        match &self.pass {
            Pass::Checked { outcome, .. } => *outcome,
            Pass::Deferred(pass) => pass.wait().1,
        }
    }

    /// The gradient of a leaf of dtype `leaf`, unscaled.
    ///
    /// Exact, because the scale is a power of two; subnormal results round. A gradient that was not scaled stays stored as
    /// it is until an op widens it.
    fn unscale(
        &self,
        gradient: FloatTensor<B>,
        leaf: Dtype,
        context: &'static Context<B>,
    ) -> Option<AmpTensor<B>> {
        let (gradient, passes) = match &self.pass {
            Pass::Checked {
                outcome: Outcome::Overflowed,
                ..
            } => return None,
            Pass::Checked { scale, .. } if *scale == 1.0 || is_unscaled::<B>(&gradient, leaf) => {
                (gradient, Passes::none())
            }
            Pass::Checked { scale, .. } => (times::<B>(gradient, scale.recip()), Passes::none()),
            Pass::Deferred(pass) => {
                let device = B::float_device(&gradient);
                let here = |state: &FloatTensor<B>| B::float_to_device(state.clone(), &device);
                let (before, after) = (here(&pass.before), here(&pass.after));
                let gradient = B::unscale_unless_overflowed(gradient, before, after);
                (gradient, Passes::of(pass.clone()))
            }
        };
        Some(AmpTensor {
            exact: true,
            passes,
            logical: dtype::of(&gradient).join(Dtype::F32),
            ..AmpTensor::new(gradient, context)
        })
    }
}

impl<B: Trainable> Gradients<B> {
    /// The gradient of a tensor, unscaled. After an overflow it is withheld, and the tensor notes that.
    fn unscale_for<C: CheckpointStrategy>(
        &self,
        tensor: &AmpTensor<B, Tape<C>>,
        gradient: FloatTensor<B>,
    ) -> Option<AmpTensor<B>> {
        let leaf = dtype::of(&tensor.inner.primitive);
        let gradient = self.unscale(gradient, leaf, tensor.context);
        if let (None, Some(origin)) = (&gradient, &tensor.origin) {
            origin.withhold();
        }
        gradient
    }
}

/// Gradients of leaves that are stored low were unscaled where they were checked, and are F32 since.
fn is_unscaled<B: Kernels>(gradient: &FloatTensor<B>, leaf: Dtype) -> bool {
    leaf.is_low() && !dtype::of(gradient).is_low()
}

impl<B: Trainable, P: PolicySource, C: CheckpointStrategy> AutodiffBackend for Amp<B, P, Tape<C>> {
    type InnerBackend = Amp<B, P, NoGraph>;
    type Gradients = Gradients<B>;

    /// Incurs one device-to-host read per device that has parameters if the loss is scaled, none otherwise, and none with
    /// `loss_scale.sync = false`.
    fn backward(root: FloatTensor<Self>) -> Gradients<B> {
        let context = root.context;
        context.count_pass();
        match context.deferred_scaling() {
            // Ranks agree on the host.
            Some(_) if ranks::has_joined(context) => {
                context.settle();
                context.deferred.reset();
            }
            Some(scaling) => return deferred_backward::<B, C>(root.inner, context, scaling),
            None => {}
        }
        let Some(scale) = context.scaler.scale() else {
            return Gradients {
                inner: burn_autodiff::Autodiff::<B, C>::backward(root.inner),
                pass: Pass::Checked {
                    scale: 1.0,
                    outcome: Outcome::Finite,
                },
            };
        };
        let root = times::<burn_autodiff::Autodiff<B, C>>(root.inner, scale);
        let mut inner = burn_autodiff::Autodiff::<B, C>::backward(root);
        let gradients = context.gradients(&inner);
        let overflowed = overflowed(&gradients, scale, &mut inner);
        let decision = ranks::decide(context, !overflowed.is_empty());
        let gradients = gradients.iter().flatten();
        let count = gradients.clone().count();
        let outcome = context.scaler.update(scale, overflowed, count, decision);
        Gradients {
            inner,
            pass: Pass::Checked { scale, outcome },
        }
    }

    fn grad(
        tensor: &FloatTensor<Self>,
        grads: &Gradients<B>,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        let gradient = tensor.inner.grad(&grads.inner)?;
        grads.unscale_for(tensor, gradient)
    }

    fn grad_remove(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients<B>,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        let gradient = tensor.inner.grad_remove(&mut grads.inner)?;
        grads.unscale_for(tensor, gradient)
    }

    fn grad_replace(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients<B>,
        grad: FloatTensor<Self::InnerBackend>,
    ) {
        let leaf = dtype::of(&tensor.inner.primitive);
        let scaled = match &grads.pass {
            Pass::Checked { scale, .. } if *scale == 1.0 || is_unscaled::<B>(&grad.inner, leaf) => {
                grad.inner
            }
            Pass::Checked { scale, .. } => times::<B>(grad.inner, *scale),
            Pass::Deferred(pass) => {
                let gradient = times::<B>(grad.inner, 1.0);
                let scale = pass.scale(gradient.rank());
                let scale = B::float_to_device(scale, &B::float_device(&gradient));
                B::float_mul(gradient, scale)
            }
        };
        tensor.inner.grad_replace(&mut grads.inner, scaled);
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<Self::InnerBackend> {
        AmpTensor {
            logical: tensor.logical,
            exact: tensor.exact,
            origin: tensor.origin,
            passes: tensor.passes,
            ..AmpTensor::new(tensor.inner.primitive, tensor.context)
        }
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

    /// A tensor that enters a graph is no gradient any more: ops on it follow the policy.
    fn from_inner(tensor: FloatTensor<Self::InnerBackend>) -> FloatTensor<Self> {
        AmpTensor {
            logical: tensor.logical,
            ..AmpTensor::new(
                burn_autodiff::Autodiff::<B, C>::from_inner(tensor.inner),
                tensor.context,
            )
        }
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
        AmpTensor {
            inner: burn_autodiff::Autodiff::<B, C>::set_distributed_params(tensor.inner, param_id),
            ..tensor
        }
    }

    #[cfg(feature = "distributed")]
    fn distributed_params(
        tensor: &FloatTensor<Self>,
    ) -> Option<burn_backend::distributed::DistributedParams> {
        burn_autodiff::Autodiff::<B, C>::distributed_params(&tensor.inner)
    }

    #[cfg(feature = "distributed")]
    fn is_distributed(tensor: &FloatTensor<Self>) -> bool {
        burn_autodiff::Autodiff::<B, C>::is_distributed(&tensor.inner)
    }
}

/// A backward pass whose outcome stays on the device.
fn deferred_backward<B: Trainable, C: CheckpointStrategy>(
    root: FloatTensor<burn_autodiff::Autodiff<B, C>>,
    context: &'static Context<B>,
    scaling: DynamicLossScale,
) -> Gradients<B> {
    let device = B::float_device(&root.primitive);
    let (before, scale) = context.deferred_scale(&device, root.rank());
    let root = times::<burn_autodiff::Autodiff<B, C>>(root, 1.0);
    let scale = burn_autodiff::Autodiff::<B, C>::from_inner(scale);
    let root = burn_autodiff::Autodiff::<B, C>::float_mul(root, scale);
    let inner = burn_autodiff::Autodiff::<B, C>::backward(root);
    let pass = context.defer(before, &context.gradients(&inner), scaling);
    Gradients {
        inner,
        pass: Pass::Deferred(pass),
    }
}

/// `tensor × factor` in F32, because F16 holds neither 65536 nor its reciprocal; F64 stays F64.
pub(crate) fn times<B: Backend>(tensor: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    let tensor = match dtype::of(&tensor) {
        low @ (Dtype::F16 | Dtype::BF16) => dtype::cast::<B>(tensor, low.join(Dtype::F32)),
        Dtype::F64 | Dtype::F32 | Dtype::Flex32 => tensor,
    };
    match factor == 1.0 {
        true => tensor,
        false => B::float_mul_scalar(tensor, factor.into()),
    }
}

impl<B: Backend> Context<B> {
    /// The gradients of all parameters that a backward pass reached, by device.
    fn gradients(
        &'static self,
        grads: &burn_autodiff::grads::Gradients,
    ) -> Vec<Vec<LeafGradient<B>>> {
        self.on_all_devices()
            .into_iter()
            .map(|context| context.leaves.gradients(grads))
            .collect()
    }
}

/// The gradients that have an element that is inf or NaN. Incurs one device-to-host read for each device that has some.
///
/// Unscales the gradients of leaves that are stored low.
fn overflowed<B: Kernels>(
    by_device: &[Vec<LeafGradient<B>>],
    scale: f32,
    grads: &mut burn_autodiff::grads::Gradients,
) -> Vec<Overflow> {
    let mut first = 0;
    let mut overflowed = Vec::new();
    for leaves in by_device {
        if let Some((order, flags)) = flags(leaves, scale, grads) {
            let flags = read_sync(B::float_into_data(flags))
                .expect("the device computed the flags that it was asked for");
            let found = order.into_iter().zip(flags.iter::<f32>());
            overflowed.extend(
                found
                    .filter(|(_, flag)| *flag != 0.0)
                    .map(|(at, _)| leaves[at].overflow(first + at)),
            );
        }
        first += leaves.len();
    }
    overflowed.sort_by_key(|overflow| overflow.index);
    overflowed
}

/// One flag for each gradient of one device, 1 if it is not finite, and to which gradient each flag belongs.
///
/// Gradients that are stored low will be rewritten in F32 anyway, and are unscaled in the same pass.
fn flags<B: Kernels>(
    leaves: &[LeafGradient<B>],
    scale: f32,
    grads: &mut burn_autodiff::grads::Gradients,
) -> Option<(Vec<usize>, FloatTensor<B>)> {
    let (low, wide): (Vec<_>, Vec<_>) =
        (0..leaves.len()).partition(|at| dtype::of(&leaves[*at].gradient).is_low());
    let gradients = |order: &[usize]| -> Vec<_> {
        order
            .iter()
            .map(|at| leaves[*at].gradient.clone())
            .collect()
    };
    let mut flags = Vec::new();
    if !wide.is_empty() {
        flags.push(B::not_finite(gradients(&wide)));
    }
    if !low.is_empty() {
        let mut unscaled = B::unscale(gradients(&low), scale.recip());
        flags.extend(unscaled.pop());
        for (at, gradient) in low.iter().zip(unscaled) {
            leaves[*at].replace(grads, gradient);
        }
    }
    let flags = match flags.len() {
        0 | 1 => flags.pop()?,
        _ => B::float_cat(flags, 0),
    };
    Some(([wide, low].concat(), flags))
}
