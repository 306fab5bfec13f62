//! `FloatTensorOps`.

use burn_amp_core::{Op, Precision, float_tensor_ops};
use burn_amp_kernels::{self as kernels, AmpBackend, activation::Activation};
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorMetadata,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use super::{
    activation,
    binary::{float_add, float_div, float_mul, float_sub},
    filled::{
        float_cat, float_empty, float_full, float_mask_where, float_ones, float_slice_assign,
        float_zeros, made,
    },
    indexed::{float_max_dim, float_min_dim, float_sort},
    lazy::{
        float_mean, float_mean_dim, float_permute, float_powi_scalar, float_reshape, float_sum,
        float_sum_dim, float_swap_dims, float_transpose, widened,
    },
    scalar::{
        float_add_scalar, float_clamp, float_clamp_max, float_clamp_min, float_div_scalar,
        float_mul_scalar, float_sub_scalar,
    },
    scores::float_mask_fill,
    summed::{float_cummax, float_cummin, float_gather_nd, float_select, float_unfold},
};
use crate::{
    backend::Amp,
    cast::{
        call::Call,
        forward::{computed, forward},
        stepped,
    },
    graph::{Graph, Recorded},
    policy::{ConfigSource, Context},
    precision,
    tensor::{AmpTensor, Nature, Parts, Reader, Saturating},
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> FloatTensorOps<Self> for Amp<B, P, G> {
    float_tensor_ops! { forward! }
}

fn float_random<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    shape: Shape,
    distribution: Distribution,
    device: &Device<B>,
    dtype: FloatDType,
) -> FloatTensor<Amp<B, P, G>> {
    let values = G::Inner::float_random(shape, distribution, device, dtype);
    let mut tensor = made::<B, P, G>(Op::float_random, values, device);
    if let Distribution::Bernoulli(_) = distribution {
        tensor.nature = Nature::ZerosAndOnes;
    }
    tensor
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
    let context = if tensor.device() == *device {
        tensor.context
    } else {
        Context::of::<P>(device)
    };
    let logical = tensor.logical;
    let nature = tensor.nature.clone().after_move();
    AmpTensor::of(Parts {
        values: G::Inner::float_to_device(moved(tensor), device),
        logical,
        context,
        nature,
        recorded: Recorded::nothing(),
    })
}

fn float_tanh<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_tanh);
    call.float(&tensor);
    let call = call.decide();
    let x = call.cast(tensor);
    let result = if call.lowers() && precision::of(&x).is_low() {
        activation::saturating::<B, G>(&call, x.clone(), Activation::Tanh)
    } else {
        computed!([F], call, float_tanh(x.clone()))
    };
    let result = call.result(result);
    call.saturating(Saturating::Activation(Activation::Tanh), x, result)
}

/// A cross entropy reads one log-probability per row of a log-softmax. Its gradient is computed from the operand of the
/// log-softmax, so the backward pass needs no tensor of the gradients of all log-probabilities.
fn float_gather<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    dim: usize,
    tensor: FloatTensor<Amp<B, P, G>>,
    indices: IntTensor<B>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_gather);
    call.float(&tensor);
    let call = call.decide();
    let stays_f32 = call.casts.operands.is_none() && tensor.stored() == Precision::F32;
    match &tensor.nature {
        Nature::LogSoftmax(operand)
            if stays_f32 && is_one_per_row(&tensor, dim, &indices.shape()) =>
        {
            let x = call.behind::<G>(operand.x.clone());
            let log_sum_exp = operand.log_sum_exp.clone();
            let output = tensor.read(Precision::F32, Reader::Cut);
            call.stored(kernels::cross_entropy::forward::<G::Inner>(
                output,
                x,
                log_sum_exp,
                indices,
            ))
        }
        _ => call.summed(tensor, |tensor| {
            G::Inner::float_gather(dim, tensor, indices)
        }),
    }
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
    let parts = tensor.into_parts();
    AmpTensor::of(Parts {
        values: G::Inner::float_detach(parts.values),
        nature: parts.nature.after_detach(),
        recorded: Recorded::nothing(),
        ..parts
    })
    .enrolled()
}

/// A sign has no digits to lose, so ops on the signs of a gradient follow the policy again: an input that was moved along
/// them is evaluated as any other.
fn float_sign<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_sign);
    call.float(&tensor);
    let call = call.decide();
    let mut signs = call.result::<G>(computed!([F], call, float_sign(call.cast(tensor))));
    signs.nature = Nature::Plain;
    signs
}

fn float_set_require_grad<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    require_grad: bool,
) -> FloatTensor<Amp<B, P, G>> {
    let parts = tensor.into_parts();
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
    let tensor = AmpTensor::of(Parts {
        values: G::Inner::float_set_require_grad(values, require_grad),
        logical: parts.logical,
        context: parts.context,
        nature: parts.nature.after_require_grad(),
        recorded: match (G::RECORDS, require_grad) {
            (true, _) => Recorded::nothing(),
            (false, true) if shares_casts => Recorded::of_parameter(),
            (false, _) => parts.recorded,
        },
    })
    .enrolled();
    if let (Nature::Leaf(leaf), Some((to, values))) = (&tensor.nature, lowered) {
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
    let (context, nature) = (tensor.context, tensor.nature.clone().after_cast());
    let values = G::Inner::float_cast(moved(tensor), dtype);
    AmpTensor::of(Parts {
        logical: precision::of(&values),
        values,
        context,
        nature,
        recorded: Recorded::nothing(),
    })
}
