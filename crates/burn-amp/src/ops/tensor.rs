//! `FloatTensorOps`.

use burn_amp_core::{Op, float_tensor_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorMetadata,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{
    Amp, AmpTensor, PolicySource, call::Call, context::Context, dtype, graph::Graph, tensor::Known,
};

float_tensor_ops! { forward!
    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let context = Context::of::<P>(device);
        let tensor = AmpTensor::new(G::Inner::float_random(shape, distribution, device, dtype), context);
        match distribution {
            Distribution::Bernoulli(_) => AmpTensor { known: Some(Box::new(Known::ZerosAndOnes)), ..tensor },
            Distribution::Default | Distribution::Uniform(..) | Distribution::Normal(..) => tensor,
        }
    }

    /// A log-probability per row is what a cross entropy reads of a log-softmax.
    fn float_gather(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::float_gather);
        call.float(&tensor);
        let call = call.decide();
        match tensor.known.as_deref() {
            Some(Known::LogSoftmax { x, log_sum_exp })
                if call.keeps_f32(dtype::of(&tensor.inner)) && is_one_per_row(&tensor, dim, &indices.shape()) =>
            {
                call.stored(G::Inner::log_softmax_at(x.clone(), log_sum_exp.clone(), indices))
            }
            _ => call.float(G::Inner::float_gather(dim, call.cast(tensor), indices)),
        }
    }

    /// A product with zeros and ones is exact in every dtype. So a dropout mask does not widen a low operand, and is
    /// saved for the backward pass as low as that.
    fn float_mul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let (lhs, rhs) = match (lhs.known.as_deref(), rhs.known.as_deref()) {
            (Some(Known::ZerosAndOnes), None) => (lhs.lowered_to(&rhs), rhs),
            (None, Some(Known::ZerosAndOnes)) => {
                let rhs = rhs.lowered_to(&lhs);
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
            logical: tensor.logical,
            exact: tensor.exact,
            origin: tensor.origin,
            passes: tensor.passes,
            ..AmpTensor::new(G::Inner::float_to_device(tensor.inner, device), Context::of::<P>(device))
        }
    }

    fn float_detach(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        AmpTensor {
            logical: tensor.logical,
            exact: tensor.exact,
            origin: tensor.origin,
            passes: tensor.passes,
            ..AmpTensor::new(G::Inner::float_detach(tensor.inner), tensor.context)
        }
        .enrolled()
    }

    fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_set_require_grad(tensor.inner, require_grad),
            exact: false,
            ..tensor
        }
        .enrolled()
    }

    fn float_cast(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        AmpTensor {
            exact: tensor.exact,
            // In a graph it would be the origin of another parameter that is made of this tensor.
            origin: tensor.origin.filter(|_| !G::RECORDS),
            passes: tensor.passes,
            ..AmpTensor::new(G::Inner::float_cast(tensor.inner, dtype), tensor.context)
        }
    }
}

/// Whether indices of shape `indices` along `dim` are one per row of the tensor.
fn is_one_per_row<T: TensorMetadata>(tensor: &T, dim: usize, indices: &Shape) -> bool {
    let shape = tensor.shape();
    dim + 1 == shape.num_dims()
        && indices.as_slice()[..dim] == shape.as_slice()[..dim]
        && indices[dim] == 1
}
