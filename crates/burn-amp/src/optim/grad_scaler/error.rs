//! The errors of a [`GradScaler`](super::GradScaler).

/// The reason why a [`GradScaler`](super::GradScaler) refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ScalerError {
    /// There are no gradients to unscale.
    #[error(
        "no gradients for this model: was the loss computed from it, and were they taken before?"
    )]
    NoGradients,
    /// `update` was called before anything was unscaled.
    #[error("nothing was unscaled since the last update; call `unscale` before `update`")]
    NothingUnscaled,
    /// Gradients of different scales cannot be added, and only those of the current scale can be unscaled.
    #[error(
        "these gradients are scaled by {found}, not by {expected}: the scale must not change between `scale` and \
         `unscale`; call `update` once per effective batch"
    )]
    OtherScale {
        /// The scale that the gradients carry.
        found: f32,
        /// The scale that is expected.
        expected: f32,
    },
    /// A number is not a valid loss scale.
    #[error(
        "{} is no loss scale; expected a power of two from 2^-126 to 2^127, so that unscaling is exact; the nearest \
         is {}",
        f64::from(*found),
        f64::from(*nearest)
    )]
    NoLossScale {
        /// The number.
        found: f32,
        /// The loss scale nearest to it.
        nearest: f32,
    },
}
