//! The dynamic loss scale on the device, for loops in which the host does not wait for the finite check.
//!
//! The state is an F32 tensor of [`STATE`] numbers: the scale, the finite steps since it last changed, the overflows that are still
//! tolerated, and whether the pass before overflowed (1) or not (0).
//!
//! * [`Kernels::next_loss_scale`](crate::Kernels::next_loss_scale): the state after a pass, from the state before it and the flags of
//!   [`finite`](crate::finite). What [`LossScaling::next`](burn_amp_core::LossScaling::next) is on the host, bit for bit, as long as
//!   `growth_interval` is below 2^24: steps are counted in F32.
//! * [`Kernels::unscale_unless_overflowed`](crate::Kernels::unscale_unless_overflowed): a gradient over the scale of its pass in F32, or zeros if
//!   the pass overflowed. Read once, written once.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{next_loss_scale, unscale_unless_overflowed};
pub use reference::{reference_next, reference_unscale};

use burn_amp_core::LossScaleState;

/// How many numbers a state has.
pub const STATE: usize = 4;

/// A state of the host as the device keeps it, after a pass that did not overflow.
pub fn state(host: LossScaleState) -> [f32; STATE] {
    let LossScaleState {
        scale,
        streak,
        hysteresis,
    } = host;
    [scale, streak as f32, hysteresis as f32, 0.0]
}
