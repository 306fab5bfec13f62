//! Machines that CubeCL computes on, with Fusion if the package's feature `fusion` is on.

use burn_cubecl::cubecl::{Runtime, stream_id::StreamId};

use super::{BytesInUse, Machine};

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
    let setup = init_setup::<graphics::Vulkan>(&device, Default::default());
    Machine {
        backend: match cfg!(feature = "fusion") {
            true => "vulkan-fusion",
            false => "vulkan",
        },
        device: setup.adapter.get_info().name,
        bytes_in_use: Some(bytes_in_use::<WgpuRuntime>(&device)),
    }
}

/// The default CUDA device.
///
/// # Errors
///
/// If there is none.
#[cfg(feature = "cuda")]
pub fn cuda() -> Result<Machine, cudarc::driver::DriverError> {
    use burn::backend::cuda::CudaDevice;
    use burn_cubecl::cubecl::cuda::CudaRuntime;
    use cudarc::driver::CudaContext;

    let device = CudaDevice::default();
    Ok(Machine {
        backend: match cfg!(feature = "fusion") {
            true => "cuda-fusion",
            false => "cuda",
        },
        device: CudaContext::new(device.index)?.name()?,
        bytes_in_use: Some(bytes_in_use::<CudaRuntime>(&device)),
    })
}

/// What the tensors of the calling thread's stream hold, padding not counted. CubeCL keeps a pool per stream.
fn bytes_in_use<R: Runtime>(device: &R::Device) -> BytesInUse {
    let (client, stream) = (R::client(device), StreamId::current());
    Box::new(move || {
        let usage = stream.executes(|| client.memory_usage());
        usage.ok().map(|usage| usage.bytes_in_use)
    })
}
