//! The backend on a command line, and code that is generic over it.

use anyhow::Result;
use burn::backend::Flex;
use burn_amp::AmpBackend;
use clap::ValueEnum;
use zoo::Size;

use crate::machine::Machine;

/// The backends to compute on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The CPU, with Burn's Flex.
    Flex,
    /// The GPU, through Vulkan; built with `--features vulkan`.
    Vulkan,
    /// The GPU, through CUDA; built with `--features cuda`.
    Cuda,
}

/// Work on a backend: a closure that is generic over it.
pub trait OnBackend {
    fn call<P: AmpBackend>(self, machine: &Machine) -> Result<()>;
}

impl Backend {
    /// The size of models that is measured unless another one is asked for: `tiny` on the CPU, else `full`.
    pub fn usual_size(self) -> Size {
        match self {
            Self::Flex => Size::Tiny,
            Self::Vulkan | Self::Cuda => Size::Full,
        }
    }

    /// Does the work on this backend's default device.
    ///
    /// # Errors
    ///
    /// Returns an error if the program was built without the backend, there is no such device, or the work fails.
    pub fn run(self, work: impl OnBackend) -> Result<()> {
        match self {
            Self::Flex => work.call::<Flex>(&Machine::flex()),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => {
                work.call::<crate::machine::cube::Vulkan>(&crate::machine::cube::vulkan())
            }
            #[cfg(feature = "cuda")]
            Self::Cuda => work.call::<crate::machine::cube::Cuda>(&crate::machine::cube::cuda()?),
            #[cfg(not(feature = "vulkan"))]
            Self::Vulkan => Err(not_built("vulkan")),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda => Err(not_built("cuda")),
        }
    }
}

#[cfg(not(all(feature = "vulkan", feature = "cuda")))]
fn not_built(backend: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "this program was built without `{backend}`; build it with `--features {backend}`, after `-p lab`"
    )
}
