//! Stands for `cubecl-llvm` where CubeCL's CUDA backend writes CUDA C++: its build needs LLVM, which it downloads, and the
//! interface alone does not. Nothing can be compiled with it.

/// PTX as LLVM writes it.
pub mod nvptx {
    /// Its version.
    pub mod ptx_version {
        use std::fmt;

        /// A version of PTX. There is none, since none is written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// Returns `None`.
            pub fn for_driver(_: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {}
            }
        }
    }
}

/// What all targets share.
pub mod shared {
    /// What LLVM can lower.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// A target of LLVM.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA's.
            Nvptx,
        }

        /// Leaves the features of a device as they are.
        pub fn restrict_features(_: &mut DeviceProperties, _: GpuTarget) {}
    }
}

use std::{convert::Infallible, ffi::c_char};

use cubecl_core::{ir::nvidia::SmArch, prelude::KernelDefinition};
use cubecl_environment::backtrace::BackTrace;
use cubecl_runtime::{
    compiler::{CompilationError, Compiler},
    kernel::BufferIOAttr,
};

/// A target of LLVM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA's.
    #[default]
    Nvptx,
}

/// A compiler that refuses each kernel.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

/// How a kernel would be compiled.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// The architecture of an AMD device.
    pub arch: Option<Infallible>,
    /// The architecture of an NVIDIA device.
    pub sm_arch: Option<SmArch>,
    /// The version of PTX.
    pub ptx_version: Option<nvptx::ptx_version::PtxVersion>,
    /// Whether scalars are parameters of the kernel.
    pub grid_constants: bool,
}

/// A compiled kernel. There is none.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// PTX, with a zero at its end.
    pub ptx: Vec<c_char>,
    /// The name of the kernel.
    pub entrypoint: String,
    /// LLVM's code.
    pub ir: String,
    /// In bytes.
    pub shared_memory_size: usize,
    /// How each buffer is used.
    pub io: Vec<BufferIOAttr>,
}

/// What a kernel is compiled to.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// For NVIDIA's devices.
    NvptxCode(NvptxModule),
    /// For others.
    Other,
}

impl Compiler for PlironCompiler {
    type Representation = String;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _: KernelDefinition,
        _: &PlironOptions,
    ) -> Result<String, CompilationError> {
        Err(refused())
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

impl PlironCompiler {
    /// Refuses the kernel.
    ///
    /// # Errors
    ///
    /// Always returns one.
    pub fn compile(
        &mut self,
        _: KernelDefinition,
        _: &PlironOptions,
    ) -> Result<PlironArtifact, CompilationError> {
        Err(refused())
    }
}

fn refused() -> CompilationError {
    CompilationError::Generic {
        reason: "this program was built without LLVM: enable the feature `cpp` of cubecl-cuda"
            .to_owned(),
        backtrace: BackTrace::capture(),
    }
}
