//! A call for every op that has a cast class: those of the tests of Burn 0.21, and the backends on which they run.

#[path = "../../../tests/src/cases/mod.rs"]
pub mod cases;

pub mod computed;
#[cfg(not(cube_kernels))]
#[path = "random/few.rs"]
pub mod few;
pub mod near;
#[cfg(not(cube_kernels))]
pub mod net;
#[cfg(not(cube_kernels))]
#[path = "../../../tests/src/random/mod.rs"]
pub mod random;
#[cfg(not(cube_kernels))]
pub mod skips;

/// What the cases and the tests of kernels name.
pub mod prelude {
    pub use std::panic::{AssertUnwindSafe, catch_unwind};

    pub use burn_amp::config::DynamicLossScale;
    pub use burn_amp_core::{Class, Op, Outcome, Precision};
    #[cfg(not(cube_kernels))]
    pub use burn_amp_decorator::thresholds;
    pub use burn_amp_kernels::AmpBackend;
    pub use burn_autodiff::{Autodiff, checkpoint::strategy};
    pub use burn_backend::ops::{BoolTensorOps, FloatTensorOps};
    pub use burn_backend::{
        AutodiffBackend, Backend, BoolDType, DType, Distribution, FloatDType, IntDType, Scalar,
        Shape, Slice, TensorData, TensorMetadata, get_device_settings, read_sync,
        tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
    };
    #[cfg(not(cube_kernels))]
    pub use burn_flex::Flex;

    pub use crate::{
        AmpAutodiff, Plain, PlainAutodiff, References,
        computed::{Operands, computed, ops, values},
        here,
    };
}

/// The device under test.
pub fn here<D: Default>() -> D {
    D::default()
}

/// The plain backend.
#[cfg(not(cube_kernels))]
pub type Plain = burn_flex::Flex;
/// The plain backend.
#[cfg(cube_kernels)]
pub type Plain = burn_cubecl::Cube;
/// Without an instrumented backend for Burn 0.22, the tests of kernels compare with the host only.
pub type References = Plain;
/// The plain backend with Burn's own autodiff.
pub type PlainAutodiff = burn_autodiff::Autodiff<Plain>;
/// The plain backend with what a program gets by the patch.
pub type AmpAutodiff = patched::Autodiff<Plain>;
