//! The optimizer's side: what happens between `backward()` and the new parameters.
//!
//! * [`MasterWeights`]: F32 master weights for parameters stored in half; [`split`] keeps them in 2 bytes
//! * [`LossScaleOptimizer`]: skips whole effective batches, clips, carries the loss scale in its record
//! * [`Clipping`]: clipping by global norm and by value
//! * [`SkipOnDevice`]: skips without the host, for `loss_scale.sync = false`
//! * [`HoldOnSkip`]: a learning rate scheduler that does not advance on a skipped step
//! * [`GradScaler`]: loss scaling by hand, for loops on Burn's own `Autodiff`

mod clip;
mod config;
mod grad_scaler;
mod loss_scale_optimizer;
mod master_weights;
mod scheduler;
mod skip_on_device;
mod split;

pub use clip::{Clipping, clip, global_norm};
pub use config::OptimizerConfig;
pub use grad_scaler::{GradScaler, Scaled, ScalerError, Unscaled};
pub use loss_scale_optimizer::{GradientNorm, LossScaleOptimizer, LossScaleOptimizerRecord};
pub use master_weights::{MasterState, MasterWeights, Masters, with_master_weights};
pub use scheduler::HoldOnSkip;
pub use skip_on_device::{SkipOnDevice, SkipState};
