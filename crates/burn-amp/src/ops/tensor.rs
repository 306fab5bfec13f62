//! `FloatTensorOps`.

use burn_amp_core::{Op, float_tensor_ops};
use burn_backend::{
    Backend, BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData,
    ops::{FloatTensorOps, GridSampleOptions},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{Amp, AmpTensor, PolicySource, call::Call, context::Context, dtype, graph::Graph};

float_tensor_ops! { forward!
    async fn float_into_data(tensor: FloatTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::float_into_data(tensor.into_inner()).await
    }

    fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_to_device(tensor.inner, device),
            logical: tensor.logical,
            exact: tensor.exact,
            context: Context::of::<P>(device),
            leaf: None,
        }
    }

    fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self> {
        let inner = G::Inner::float_set_require_grad(tensor.inner, require_grad);
        let leaf = match G::Inner::float_is_require_grad(&inner) {
            true => tensor.leaf.or_else(|| G::enroll(&inner, tensor.context)),
            false => None,
        };
        AmpTensor { inner, logical: tensor.logical, exact: false, context: tensor.context, leaf }
    }

    fn float_cast(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        AmpTensor {
            inner: G::Inner::float_cast(tensor.inner, dtype),
            logical: dtype::from_burn(dtype.into()),
            exact: tensor.exact,
            context: tensor.context,
            leaf: None,
        }
    }
}
