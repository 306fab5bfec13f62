//! What the files of ops import, all of it.

pub(crate) use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
pub(crate) use burn_backend::{
    Backend, DType, FloatDType, Shape, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
#[cfg(feature = "cubecl")]
pub(crate) use burn_cubecl::CubeRuntime;
#[cfg(feature = "flex")]
pub(crate) use burn_flex::Flex;

#[cfg(feature = "cubecl")]
pub(crate) use crate::tensors::{CubeTensors, Launched};
pub(crate) use crate::{
    flushed::seen,
    graph::{
        MOST_OPERANDS, Node, Pass, Recording, Tracked, by_length, record, record_with_all,
        untracked,
    },
    kernel::{AmpBackend, Graph, Kernel},
    names::{device_of, recomputes},
    sum::sum_dim,
    tensors::{Meta, Tensors, TensorsOf, exactly, one_per_row},
    widen::{bool_dtype, cast, wide_dtype, widen},
};
