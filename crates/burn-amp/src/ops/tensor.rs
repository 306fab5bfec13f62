//! `FloatTensorOps`.

use burn_amp_core::{Op, float_tensor_ops};
use burn_backend::{
    Backend, BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{Amp, AmpTensor, PolicySource, call::Call, context::Context, graph::Graph};

float_tensor_ops! { forward!
    async fn float_into_data(tensor: FloatTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::float_into_data(tensor.into_inner()).await
    }

    fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self> {
        AmpTensor {
            logical: tensor.logical,
            exact: tensor.exact,
            origin: tensor.origin,
            ..AmpTensor::new(G::Inner::float_to_device(tensor.inner, device), Context::of::<P>(device))
        }
    }

    fn float_detach(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        AmpTensor {
            logical: tensor.logical,
            exact: tensor.exact,
            origin: tensor.origin,
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
            ..AmpTensor::new(G::Inner::float_cast(tensor.inner, dtype), tensor.context)
        }
    }
}
