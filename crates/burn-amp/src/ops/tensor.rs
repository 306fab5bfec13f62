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
            Distribution::Bernoulli(_) => AmpTensor { known: Some(Known::ZerosAndOnes), ..tensor },
            Distribution::Default | Distribution::Uniform(..) | Distribution::Normal(..) => tensor,
        }
    }

    /// A log-probability per row is what a cross entropy reads of a log-softmax.
    fn float_gather(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::float_gather);
        call.float(&tensor);
        let call = call.decide();
        let rows = row_shape(&tensor.inner.shape());
        match tensor.known.clone() {
            Some(Known::LogSoftmax { x, log_sum_exp })
                if call.keeps_f32(dtype::of(&tensor.inner)) && dim + 1 == rows.num_dims() && indices.shape() == rows =>
            {
                call.stored(G::Inner::log_softmax_at(x, log_sum_exp, indices))
            }
            _ => call.float(G::Inner::float_gather(dim, call.cast(tensor), indices)),
        }
    }

    /// A product with zeros and ones is exact in every dtype. So a dropout mask does not widen a low operand, and is
    /// saved for the backward pass as low as that.
    fn float_mul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let (lhs, rhs) = match (&lhs.known, &rhs.known) {
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
            passes: tensor.passes,
            ..AmpTensor::new(G::Inner::float_cast(tensor.inner, dtype), tensor.context)
        }
    }
}

/// The shape with 1 at the last dimension.
fn row_shape(shape: &Shape) -> Shape {
    let mut dims = shape.as_slice().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = 1;
    }
    Shape::from(dims)
}
