//! `FloatTensorOps`.

use burn_amp_core::{Precision, float_tensor_ops};
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorMetadata,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use super::{binary::float_mul, filled::float_cat, lazy::widened};
use crate::{
    backend::Amp,
    cast::{call::Decided, forward::forward, stepped},
    graph::{Graph, Recorded},
    policy::{ConfigSource, Context},
    precision,
    tensor::{AmpTensor, Parts, Reader, Recipe, Role},
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> FloatTensorOps<Self> for Amp<B, P, G> {
    float_tensor_ops! { forward! }
}

/// The exact values of a tensor, as one of its uses, for an op that moves or casts them.
fn moved<B: AmpBackend, G: Graph<B>>(tensor: AmpTensor<B, G>) -> FloatTensor<G::Inner> {
    let (dtype, reader) = (tensor.exact_dtype(), Reader::alone(&tensor));
    tensor.read(dtype, reader)
}

async fn float_into_data<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> Result<TensorData, ExecutionError> {
    G::Inner::float_into_data(tensor.into_inner()).await
}

fn float_to_device<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    device: &Device<B>,
) -> FloatTensor<Amp<B, P, G>> {
    let stays = tensor.device() == *device;
    let is_reshaped = matches!(tensor.recipe(), Some(Recipe::Reshaped(_)));
    if stays && (is_reshaped || tensor.has_nothing_to_move()) {
        return tensor.map(|values| G::Inner::float_to_device(values, device));
    }
    let context = match stays {
        true => tensor.context,
        false => Context::of::<P>(device),
    };
    let logical = tensor.logical;
    let role = tensor.role.clone().after_move();
    AmpTensor::of(Parts {
        values: G::Inner::float_to_device(moved(tensor), device),
        logical,
        context,
        role,
        recorded: Recorded::nothing(),
    })
}

/// A cross entropy reads one log-probability per row of a log-softmax. Its gradient is computed from the operand of the
/// log-softmax, so the backward pass needs no tensor of the gradients of all log-probabilities.
pub(super) fn picked<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    tensor: &AmpTensor<B, G>,
    dim: usize,
    indices: &IntTensor<B>,
) -> Option<AmpTensor<B, G>> {
    let stays_f32 = call.casts.operands.is_none() && tensor.stored() == Precision::F32;
    let Some(Recipe::LogSoftmax { x, log_sum_exp }) = tensor.recipe() else {
        return None;
    };
    if !stays_f32 || !is_one_per_row(tensor, dim, &indices.shape()) {
        return None;
    }
    Some(call.stored(kernels::cross_entropy::forward::<G::Inner>(
        tensor.clone().read(Precision::F32, Reader::Cut),
        call.behind::<G>(x.clone()),
        log_sum_exp.clone(),
        indices.clone(),
    )))
}

/// Whether indices of shape `indices` pick one element per row, along the last dimension `dim`.
fn is_one_per_row<T: TensorMetadata>(tensor: &T, dim: usize, indices: &Shape) -> bool {
    let shape = tensor.shape();
    dim + 1 == shape.num_dims()
        && indices.as_slice()[..dim] == shape.as_slice()[..dim]
        && indices[dim] == 1
}

fn float_detach<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    if tensor.stored_shape().is_some() {
        let shape = tensor.shape();
        let outside = |values| G::constant(G::values(&values));
        return tensor.in_stored_shape().map(outside).seen_in(shape);
    }
    let parts = tensor.apart();
    AmpTensor::enrolled(Parts {
        values: G::Inner::float_detach(parts.values),
        role: parts.role.after_detach(),
        recorded: Recorded::nothing(),
        ..parts
    })
}

/// A sign has no digits to lose, so ops on the signs of a gradient follow the policy again: an input that was moved along
/// them is evaluated as any other.
pub(super) fn signs<B: AmpBackend, G: Graph<B>>(mut signs: AmpTensor<B, G>) -> AmpTensor<B, G> {
    signs.facts_mut().role = Role::Activation;
    signs
}

fn float_set_require_grad<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    require_grad: bool,
) -> FloatTensor<Amp<B, P, G>> {
    let parts = tensor.apart();
    // A parameter whose first value is the result of an op in low precision is stored in the dtype that the model sees.
    let values = if require_grad {
        precision::cast::<G::Inner>(parts.values, parts.logical)
    } else {
        parts.values
    };
    if let (true, Some(stepped)) = (require_grad, parts.recorded.stepped) {
        stepped::check(stepped, precision::of(&values), &parts.context.config);
    }
    let lowered = parts.recorded.lowered();
    let shares_casts = parts.context.policy.compute().is_low();
    let tensor = AmpTensor::enrolled(Parts {
        values: G::Inner::float_set_require_grad(values, require_grad),
        logical: parts.logical,
        context: parts.context,
        role: parts.role.after_require_grad(),
        recorded: match (G::RECORDS, require_grad) {
            (true, _) => Recorded::nothing(),
            (false, true) if shares_casts => Recorded::sharing(0),
            (false, _) => parts.recorded,
        },
    });
    if let (Role::Leaf(leaf), Some((to, values))) = (&tensor.role, lowered) {
        leaf.take_cast(to, values);
    }
    tensor
}

fn float_cast<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    if dtype == FloatDType::F32
        && let Some(chain) = widened(&tensor)
    {
        return chain;
    }
    let (context, role) = (tensor.context, tensor.role.clone().after_cast::<G>());
    let values = G::Inner::float_cast(moved(tensor), dtype);
    AmpTensor::of(Parts {
        logical: precision::of(&values),
        values,
        context,
        role,
        recorded: Recorded::nothing(),
    })
}
