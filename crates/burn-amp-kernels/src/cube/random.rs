//! Random bits on the device.

use burn_amp_core::random::FACTORS;
use cubecl::prelude::*;

/// The same bijection as [`mixed`](burn_amp_core::random::mixed).
#[cube]
pub(crate) fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16u32)) * FACTORS[0];
    let x = (x ^ (x >> 15u32)) * FACTORS[1];
    x ^ (x >> 16u32)
}
