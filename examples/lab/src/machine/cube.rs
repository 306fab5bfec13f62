//! GPUs, through CubeCL; under Fusion if the package's feature `fusion` is on.

use burn_cubecl::cubecl::{Runtime, stream_id::StreamId};

use super::{BytesInUse, Machine, Meter};

#[cfg(all(feature = "vulkan", feature = "fusion"))]
pub type Vulkan = burn::backend::Vulkan;
#[cfg(all(feature = "vulkan", not(feature = "fusion")))]
pub type Vulkan = burn_cubecl::CubeBackend<burn::backend::wgpu::WgpuRuntime, f32, i32, u8>;

#[cfg(all(feature = "cuda", feature = "fusion"))]
pub type Cuda = burn::backend::Cuda;
#[cfg(all(feature = "cuda", not(feature = "fusion")))]
pub type Cuda = burn_cubecl::CubeBackend<burn_cubecl::cubecl::cuda::CudaRuntime, f32, i32, u8>;

/// The default Vulkan device. Call it once, before the first tensor is made.
#[cfg(feature = "vulkan")]
pub fn vulkan() -> Machine {
    use burn::backend::wgpu::{WgpuDevice, WgpuRuntime, graphics, init_setup};

    let device = WgpuDevice::default();
    let setup = init_setup::<graphics::Vulkan>(&device, Default::default());
    Machine {
        backend: if cfg!(feature = "fusion") {
            "vulkan-fusion"
        } else {
            "vulkan"
        },
        device: setup.adapter.get_info().name,
        meter: Meter::Device(bytes_in_use::<WgpuRuntime>(&device)),
        emulates_half: false,
    }
}

/// The default CUDA device.
///
/// # Errors
///
/// Returns an error if there is none, or if something is missing without which CubeCL would panic.
#[cfg(feature = "cuda")]
pub fn cuda() -> Result<Machine, NoCuda> {
    use burn::backend::cuda::CudaDevice;
    use burn_cubecl::cubecl::cuda::{CudaRuntime, install};
    use cudarc::{driver, driver::CudaContext, nvrtc};

    // SAFETY: it loads a library of NVIDIA's, as any use of it would; its initialisers have no preconditions.
    let (driver, compiler) = unsafe {
        (
            driver::sys::is_culib_present(),
            nvrtc::sys::is_culib_present(),
        )
    };
    if !driver {
        return Err(NoCuda::Library("libcuda"));
    }
    if !compiler {
        return Err(NoCuda::Library("libnvrtc"));
    }
    let header = install::cuda_path().map(|path| path.join("include/cuda_runtime.h"));
    if !header.is_some_and(|header| header.exists()) {
        return Err(NoCuda::Headers);
    }

    let device = CudaDevice::default();
    let name = CudaContext::new(device.index).and_then(|context| context.name());
    Ok(Machine {
        backend: if cfg!(feature = "fusion") {
            "cuda-fusion"
        } else {
            "cuda"
        },
        device: name.map_err(NoCuda::Driver)?,
        meter: Meter::Device(bytes_in_use::<CudaRuntime>(&device)),
        emulates_half: false,
    })
}

/// The reason why CubeCL cannot compute on CUDA.
#[cfg(feature = "cuda")]
#[derive(Debug, thiserror::Error)]
pub enum NoCuda {
    #[error("no CUDA device: {0} is not found; `LD_LIBRARY_PATH` names the folders to look in")]
    Library(&'static str),
    #[error("no CUDA headers to compile kernels with; `CUDA_PATH` names the toolkit's folder")]
    Headers,
    #[error("no CUDA device: {0}")]
    Driver(cudarc::driver::DriverError),
}

/// Counts the bytes of the tensors on the calling thread's stream, without padding. CubeCL keeps a pool per stream.
fn bytes_in_use<R: Runtime>(device: &R::Device) -> BytesInUse {
    let (client, stream) = (R::client(device), StreamId::current());
    Box::new(move || {
        let usage = stream.executes(|| client.memory_usage());
        usage.ok().map(|usage| usage.bytes_in_use)
    })
}
