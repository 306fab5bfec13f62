//! The compute dtype of a configuration on a device.

use burn_amp_core::{Compute, Config, Precision, Preset, formats::Simulate};
use burn_amp_kernels::AmpBackend;
use burn_backend::DTypeUsage;

use super::source::SetupError;
use crate::precision;

/// The dtypes that `auto` chooses from, the first that a device has.
const LOW: [Precision; 2] = [Precision::BF16, Precision::F16];

/// Returns the compute dtype: the configured one, or the one that `auto` chooses for the device.
///
/// # Errors
///
/// Returns an error if the device cannot compute in the dtype that the configuration asks for.
pub(super) fn compute_dtype<B: AmpBackend>(
    config: &Config,
    device: &B::Device,
) -> Result<Precision, SetupError> {
    let supports = |dtype: &Precision| B::supports_dtype(device, precision::to_burn(*dtype));
    let compute = match (config.preset, config.compute) {
        (Preset::O0, _) | (_, Compute::F32) => return Ok(Precision::F32),
        (_, Compute::Auto) => {
            // A recipe is simulated for what it computes, not for its speed.
            let dtype = match config.simulate {
                Simulate::Off => accelerated::<B>(device),
                _ if !B::runs_low_products(device) => None,
                _ => LOW.into_iter().find(supports),
            };
            return Ok(dtype.unwrap_or(Precision::F32));
        }
        (_, Compute::Bf16) => Precision::BF16,
        (_, Compute::F16) => Precision::F16,
    };
    if supports(&compute) {
        return Ok(compute);
    }
    Err(SetupError::UnsupportedDtype {
        device: format!("{} on {device:?}", B::name(device)),
        compute,
        supported: [Precision::F32, Precision::F16, Precision::BF16]
            .iter()
            .filter(|dtype| supports(dtype))
            .map(|dtype| dtype.name())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Returns the first of BF16 and F16 that the device accelerates, if products in it run.
fn accelerated<B: AmpBackend>(device: &B::Device) -> Option<Precision> {
    if !B::runs_low_products(device) {
        return None;
    }
    LOW.into_iter().find(|dtype| {
        B::dtype_usage(device, precision::to_burn(*dtype))
            .is_superset(DTypeUsage::general() | DTypeUsage::Accelerated)
    })
}
