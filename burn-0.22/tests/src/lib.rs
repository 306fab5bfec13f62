//! A call for every op that has a cast class: those of the tests of Burn 0.21, and the backends on which they run.

#[path = "../../../tests/src/cases/mod.rs"]
pub mod cases;

pub mod computed;
pub mod near;

/// What the cases name.
pub mod prelude {
    pub use burn_amp_core::Op;
    pub use burn_backend::{
        AutodiffBackend, Backend, BoolDType, DType, FloatDType, IntDType, Scalar, Shape, Slice,
        TensorData, TensorMetadata, get_device_settings, read_sync,
        tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
    };

    pub use crate::{
        AmpAutodiff, Plain, PlainAutodiff,
        computed::{Operands, computed, ops, values},
    };
}

/// The plain backend.
#[cfg(not(cube_kernels))]
pub type Plain = burn_flex::Flex;
/// The plain backend.
#[cfg(cube_kernels)]
pub type Plain = burn_cubecl::Cube;
/// The plain backend with Burn's own autodiff.
pub type PlainAutodiff = burn_autodiff::Autodiff<Plain>;
/// The plain backend with what a program gets by the patch.
pub type AmpAutodiff = patched::Autodiff<Plain>;
