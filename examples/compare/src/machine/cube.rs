//! Machines that CubeCL computes on, with Fusion if the package's feature `fusion` is on.

use burn_cubecl::cubecl::{Runtime, stream_id::StreamId};

use super::Machine;
use crate::memory::{BytesInUse, Meter};

#[cfg(all(feature = "vulkan", feature = "fusion"))]
pub type Vulkan = burn::backend::Vulkan;
#[cfg(all(feature = "vulkan", not(feature = "fusion")))]
pub type Vulkan = burn_cubecl::CubeBackend<burn::backend::wgpu::WgpuRuntime, f32, i32, u8>;

#[cfg(all(feature = "cuda", feature = "fusion"))]
pub type Cuda = burn::backend::Cuda;
#[cfg(all(feature = "cuda", not(feature = "fusion")))]
pub type Cuda = burn_cubecl::CubeBackend<burn_cubecl::cubecl::cuda::CudaRuntime, f32, i32, u8>;

/// The default Vulkan device. To be called once, before the first tensor is made.
#[cfg(feature = "vulkan")]
pub fn vulkan() -> Machine {
    use burn::backend::wgpu::{WgpuDevice, WgpuRuntime, graphics, init_setup};

    let device = WgpuDevice::default();
    init_setup::<graphics::Vulkan>(&device, Default::default());
    Machine {
        backend: match cfg!(feature = "fusion") {
            true => "vulkan-fusion",
            false => "vulkan",
        },
        meter: Meter::Device(bytes_in_use::<WgpuRuntime>(&device)),
        emulates_half: false,
        rounds_f32: false,
    }
}

/// The default CUDA device.
#[cfg(feature = "cuda")]
pub fn cuda() -> Machine {
    use burn::backend::cuda::CudaDevice;
    use burn_cubecl::cubecl::cuda::CudaRuntime;

    Machine {
        backend: match cfg!(feature = "fusion") {
            true => "cuda-fusion",
            false => "cuda",
        },
        meter: Meter::Device(bytes_in_use::<CudaRuntime>(&CudaDevice::default())),
        emulates_half: false,
        rounds_f32: true,
    }
}

/// What the tensors of the calling thread's stream hold, padding not counted. CubeCL keeps a pool per stream.
fn bytes_in_use<R: Runtime>(device: &R::Device) -> BytesInUse {
    let (client, stream) = (R::client(device), StreamId::current());
    Box::new(move || {
        let usage = stream.executes(|| client.memory_usage());
        usage.ok().map(|usage| usage.bytes_in_use)
    })
}
