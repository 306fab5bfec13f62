//! The kernels, for every backend made of burn-cubecl.
//!
//! * [`plan`], [`row`], [`team`]: kernels over rows, on the host, in a unit, and among units
//! * [`slices`]: sums of which a kernel before has added the slices
//! * [`lists`]: kernels over many tensors
//! * [`layout`]: tensors in the order of memory of another one
//! * [`names`]: two releases of CubeCL
//! * [`random`]: random bits
//! * [`read`]: a tensor on its way to the host
//!
//! Kernels compute in F32, so operands in F64 go to the references.

pub(crate) mod layout;
pub(crate) mod lists;
pub(crate) mod names;
pub(crate) mod plan;
pub(crate) mod random;
pub(crate) mod read;
pub(crate) mod row;
pub(crate) mod slices;
pub(crate) mod team;

use burn_backend::{ops::AttentionModuleOptions, tensor::FloatTensor};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};

use crate::{
    AmpBackend,
    kernel::{Kernel, TensorsOf},
    reading::Reading,
    tensors::has_f64,
};

impl<R: CubeRuntime, F: FloatElement, I: IntElement, T: BoolElement> AmpBackend
    for CubeBackend<R, F, I, T>
{
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if !K::READS_F64 && has_f64(&operands.floats) {
            return kernel.reference::<Self>(operands);
        }
        let launched = kernel.launch(operands);
        launched.unwrap_or_else(|operands| kernel.reference::<Self>(operands))
    }

    /// Not with TMA, for which CubeCL 0.11.3 tunes candidates that it cannot launch.
    #[cfg(burn_0_22)]
    fn runs_low_products(device: &Self::Device) -> bool {
        let client = device.client();
        !client
            .properties()
            .features
            .tma
            .contains(cubecl::features::Tma::Base)
    }

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        read::read_later(tensor)
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        !has_bias && options.softcap.is_none() && options.scale.is_none()
    }
}
