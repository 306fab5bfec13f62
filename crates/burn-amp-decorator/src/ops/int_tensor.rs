//! `IntTensorOps`.

use std::ops::Range;

use burn_amp_core::int_tensor_ops;
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData,
    ops::IntTensorOps,
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor},
};

use crate::{backend::Amp, cast::forward::forward, graph::Graph, policy::ConfigSource};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> IntTensorOps<Self> for Amp<B, P, G> {
    int_tensor_ops! { forward! }
}
