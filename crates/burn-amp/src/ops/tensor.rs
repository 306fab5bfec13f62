//! `FloatTensorOps`.

use burn_amp_core::{Dtype, Op, float_tensor_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorMetadata,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{
    backend::Amp,
    call::Call,
    dtype,
    graph::Graph,
    policy::{Context, PolicySource},
    tensor::{AmpTensor, Nature},
};

float_tensor_ops! { forward!
    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let context = Context::of::<P>(device);
        let mut tensor = AmpTensor::new(G::Inner::float_random(shape, distribution, device, dtype), context);
        if let Distribution::Bernoulli(_) = distribution {
            tensor.nature = Nature::ZerosAndOnes;
        }
        tensor
    }

    /// A log-probability per row is what a cross entropy reads of a log-softmax.
    fn float_gather(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::float_gather);
        call.float(&tensor);
        let call = call.decide();
        match &tensor.nature {
            Nature::LogSoftmax(operand)
                if call.keeps_f32(dtype::of(&tensor.inner)) && is_one_per_row(&tensor, dim, &indices.shape()) =>
            {
                let (x, log_sum_exp) = (operand.x.clone(), operand.log_sum_exp.clone());
                call.stored(G::Inner::log_softmax_at(x, log_sum_exp, indices))
            }
            _ => call.float(G::Inner::float_gather(dim, call.cast(tensor), indices)),
        }
    }

    /// A product with zeros and ones is exact in every dtype. So a dropout mask does not widen a low operand, and is
    /// saved for the backward pass as low as that.
    fn float_mul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let (lhs, rhs) = match (&lhs.nature, &rhs.nature) {
            (Nature::ZerosAndOnes, Nature::ZerosAndOnes) => (lhs, rhs),
            (Nature::ZerosAndOnes, _) => (mask_like(lhs, &rhs), rhs),
            (_, Nature::ZerosAndOnes) => {
                let rhs = mask_like(rhs, &lhs);
                (lhs, rhs)
            }
            _ => (lhs, rhs),
        };
        let mut call = Call::<B>::new::<G>(Op::float_mul);
        call.float(&lhs);
        call.float(&rhs);
        let call = call.decide();
        call.float(G::Inner::float_mul(call.cast(lhs), call.cast(rhs)))
    }

    async fn float_into_data(tensor: FloatTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::float_into_data(tensor.into_inner()).await
    }

    fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_to_device(tensor.inner, device),
            logical: tensor.logical,
            context: Context::of::<P>(device),
            nature: tensor.nature.after_move(),
        }
    }

    fn float_detach(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_detach(tensor.inner),
            logical: tensor.logical,
            context: tensor.context,
            nature: tensor.nature.after_move(),
        }
        .enrolled()
    }

    fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_set_require_grad(tensor.inner, require_grad),
            logical: tensor.logical,
            context: tensor.context,
            nature: tensor.nature.after_require_grad(),
        }
        .enrolled()
    }

    fn float_cast(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let inner = G::Inner::float_cast(tensor.inner, dtype);
        AmpTensor {
            logical: dtype::of(&inner),
            inner,
            context: tensor.context,
            nature: tensor.nature.after_cast(),
        }
    }
}

/// A mask of zeros and ones in the dtype of `other` where that is low. No value changes.
fn mask_like<B: Kernels, G: Graph<B>>(
    mask: AmpTensor<B, G>,
    other: &AmpTensor<B, G>,
) -> AmpTensor<B, G> {
    let to = dtype::of(&other.inner);
    if dtype::of(&mask.inner) != Dtype::F32 || !to.is_low() {
        return mask;
    }
    AmpTensor {
        inner: dtype::cast::<G::Inner>(mask.inner, to),
        logical: mask.logical,
        context: mask.context,
        nature: mask.nature,
    }
}

/// Whether indices of shape `indices` along `dim` are one per row of the tensor.
fn is_one_per_row<T: TensorMetadata>(tensor: &T, dim: usize, indices: &Shape) -> bool {
    let shape = tensor.shape();
    dim + 1 == shape.num_dims()
        && indices.as_slice()[..dim] == shape.as_slice()[..dim]
        && indices[dim] == 1
}
