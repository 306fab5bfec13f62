//! `IntTensorOps`.

use std::ops::Range;

use burn_amp_core::{Op, int_tensor_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData,
    ops::IntTensorOps,
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{
    backend::Amp,
    call::Call,
    graph::Graph,
    policy::{Context, PolicySource},
    tensor::AmpTensor,
};

int_tensor_ops! { forward!
    async fn int_into_data(tensor: IntTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::int_into_data(tensor).await
    }

    fn int_into_float(tensor: IntTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let context = Context::of::<P>(&G::Inner::int_device(&tensor));
        AmpTensor::new(G::Inner::int_into_float(tensor, dtype), context)
    }
}
