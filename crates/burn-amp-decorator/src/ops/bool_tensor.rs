//! `BoolTensorOps`.

use burn_amp_core::bool_tensor_ops;
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    ops::BoolTensorOps,
    tensor::{BoolTensor, Device, FloatTensor, IntTensor},
};

use crate::{backend::Amp, cast::forward::forward, graph::Graph, policy::ConfigSource};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> BoolTensorOps<Self> for Amp<B, P, G> {
    bool_tensor_ops! { forward! }
}
