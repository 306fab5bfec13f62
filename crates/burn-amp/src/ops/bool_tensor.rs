//! `BoolTensorOps`.

use burn_amp_core::{Op, bool_tensor_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    ops::BoolTensorOps,
    tensor::{BoolTensor, Device, FloatTensor, IntTensor},
};

use crate::{
    backend::Amp,
    call::Call,
    graph::Graph,
    policy::{Context, PolicySource},
    tensor::AmpTensor,
};

bool_tensor_ops! { forward!
    async fn bool_into_data(tensor: BoolTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::bool_into_data(tensor).await
    }

    fn bool_into_float(tensor: BoolTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let context = Context::of::<P>(&G::Inner::bool_device(&tensor));
        AmpTensor::new(G::Inner::bool_into_float(tensor, dtype), context)
    }

    async fn bool_argwhere(tensor: BoolTensor<Self>, out_dtype: IntDType) -> IntTensor<Self> {
        G::Inner::bool_argwhere(tensor, out_dtype).await
    }
}
