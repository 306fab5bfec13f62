//! Scaled autodiff: the loss is scaled, the gradients are checked and unscaled, the training loop does not know.
//!
//! ```text
//! backward:     loss in F32 × scale → Burn's backward pass → one flag per leaf gradient → one read → the scale moves
//! grad_remove:  gradient in F32 × 1/scale, or nothing after an overflow
//! ```

use burn_amp_core::{Dtype, Outcome};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::{
    AutodiffBackend, Backend, get_device_settings, read_sync,
    tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor},
};

use crate::{
    Amp, AmpTensor, PolicySource,
    context::Context,
    distributed::Trainable,
    dtype,
    graph::{NoGraph, Tape},
    leaf::LeafGradient,
    ranks,
    scaler::Overflow,
};

/// The gradients of a backward pass, still scaled, and whether they may be used.
pub struct Gradients {
    inner: burn_autodiff::grads::Gradients,
    scale: f32,
    outcome: Outcome,
}

impl Gradients {
    /// The factor that the stored gradients carry.
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Whether all gradients were finite. After an overflow no gradient is handed out.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Unscales a gradient in F32.
    ///
    /// Exact, because the scale is a power of two; subnormal results round. A gradient that was not scaled stays stored as
    /// it is until an op widens it.
    fn unscale<B: Backend>(
        &self,
        gradient: FloatTensor<B>,
        context: &'static Context<B>,
    ) -> Option<AmpTensor<B>> {
        match self.outcome {
            Outcome::Overflowed => None,
            Outcome::Finite => {
                let gradient = match self.scale == 1.0 {
                    true => gradient,
                    false => times::<B>(gradient, self.scale.recip()),
                };
                Some(AmpTensor {
                    exact: true,
                    logical: dtype::of(&gradient).join(Dtype::F32),
                    ..AmpTensor::new(gradient, context)
                })
            }
        }
    }
}

impl<B: Trainable, P: PolicySource, C: CheckpointStrategy> AutodiffBackend for Amp<B, P, Tape<C>> {
    type InnerBackend = Amp<B, P, NoGraph>;
    type Gradients = Gradients;

    /// Incurs one device-to-host read per device that has parameters if the loss is scaled, none otherwise.
    fn backward(root: FloatTensor<Self>) -> Gradients {
        let context = root.context;
        context.count_pass();
        let Some(scale) = context.scaler.scale() else {
            return Gradients {
                inner: burn_autodiff::Autodiff::<B, C>::backward(root.inner),
                scale: 1.0,
                outcome: Outcome::Finite,
            };
        };
        let root = times::<burn_autodiff::Autodiff<B, C>>(root.inner, scale);
        let inner = burn_autodiff::Autodiff::<B, C>::backward(root);
        let gradients = context.gradients(&inner);
        let overflowed = overflowed(&gradients);
        let decision = ranks::decide(context, !overflowed.is_empty());
        let gradients = gradients.iter().flatten();
        let count = gradients.clone().count();
        if decision.found_inf {
            gradients.for_each(LeafGradient::withhold);
        }
        let outcome = context.scaler.update(scale, overflowed, count, decision);
        Gradients {
            inner,
            scale,
            outcome,
        }
    }

    fn grad(
        tensor: &FloatTensor<Self>,
        grads: &Gradients,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        grads.unscale(tensor.inner.grad(&grads.inner)?, tensor.context)
    }

    fn grad_remove(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        let gradient = tensor.inner.grad_remove(&mut grads.inner)?;
        grads.unscale(gradient, tensor.context)
    }

    fn grad_replace(
        tensor: &FloatTensor<Self>,
        grads: &mut Gradients,
        grad: FloatTensor<Self::InnerBackend>,
    ) {
        let scaled = times::<B>(grad.inner, grads.scale);
        tensor.inner.grad_replace(&mut grads.inner, scaled);
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<Self::InnerBackend> {
        AmpTensor {
            logical: tensor.logical,
            exact: tensor.exact,
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

/// `tensor × factor` in F32, because F16 holds neither 65536 nor its reciprocal; F64 stays F64.
fn times<B: Backend>(tensor: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
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
fn overflowed<B: Backend>(by_device: &[Vec<LeafGradient<B>>]) -> Vec<Overflow> {
    let mut first = 0;
    let mut overflowed = Vec::new();
    for gradients in by_device {
        overflowed.extend(overflowed_of(gradients, first));
        first += gradients.len();
    }
    overflowed
}

/// Those of the gradients on one device that are not finite; the first gradient has the index `first`.
fn overflowed_of<B: Backend>(gradients: &[LeafGradient<B>], first: usize) -> Vec<Overflow> {
    let (candidates, flags): (Vec<_>, Vec<_>) = gradients
        .iter()
        .enumerate()
        .filter(|(_, leaf)| leaf.shape.num_elements() > 0)
        .map(|(index, leaf)| {
            let candidate = Overflow {
                index: first + index,
                shape: leaf.shape.clone(),
                dtype: dtype::of(&leaf.gradient),
            };
            (candidate, all_finite::<B>(leaf.gradient.clone()))
        })
        .unzip();
    if flags.is_empty() {
        return Vec::new();
    }
    let flags = read_sync(B::bool_into_data(B::bool_cat(flags, 0)))
        .expect("the device computed the flags that it was asked for");
    candidates
        .into_iter()
        .zip(flags.iter::<bool>())
        .filter_map(|(candidate, finite)| (!finite).then_some(candidate))
        .collect()
}

/// Whether every element is finite, as a tensor of one element. A comparison with NaN is false.
pub(crate) fn all_finite<B: Backend>(gradient: FloatTensor<B>) -> BoolTensor<B> {
    let dtype = dtype::of(&gradient);
    let bool_dtype = get_device_settings::<B>(&B::float_device(&gradient)).bool_dtype;
    let bounded =
        B::float_lower_equal_elem(B::float_abs(gradient), dtype::max(dtype).into(), bool_dtype);
    B::bool_all(bounded)
}
