//! `BoolTensorOps`.

use burn_amp_core::bool_tensor_ops;
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    ops::BoolTensorOps,
    tensor::{BoolTensor, Device, FloatTensor, IntTensor},
};

use crate::{backend::Amp, cast::forward::forward, graph::Graph, policy::PolicySource};

impl<B: Kernels, P: PolicySource, G: Graph<B>> BoolTensorOps<Self> for Amp<B, P, G> {
    bool_tensor_ops! { forward! }
}
