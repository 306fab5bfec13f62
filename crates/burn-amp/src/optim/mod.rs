//! Optimizers, and everything else between `backward()` and the new parameters.
//!
//! * [`AmpOptimizer`]: the one to start with; it follows the policy in force. It is made of
//!   * [`AmpAdaptor`]: steps all parameters together if the optimizer is Adam, AdamW or SGD, and skips steps on the device
//!     with `loss_scale.sync = false`. Other optimizers step one parameter after the other, with `MasterWeights`
//!   * [`MasterWeights`]: F32 master weights for parameters stored in half precision
//!   * [`LossScaleOptimizer`]: skips whole effective batches (all gradients that one step is made from), clips, and
//!     saves the loss scale in its record
//! * [`Clipping`]: clipping by global norm and by value
//! * [`GradientNorm`]: the norm of the gradients of the last step
//! * [`MasterModel`]: returns the model with its F32 masters, to save it
//! * [`HoldOnSkip`]: a learning rate scheduler that does not advance on a skipped step
//! * [`GradScaler`]: loss scaling by hand, for loops on Burn's own `Autodiff`

mod amp_optimizer;
mod clip;
mod config;
mod effective_batch;
mod foreign;
mod grad_scaler;
mod gradients;
mod list;
mod loss_scale_optimizer;
mod master_model;
mod master_state;
mod master_weights;
mod merge;
mod outliers;
mod rate;
mod record;
mod rule;
mod scheduler;

pub use amp_optimizer::AmpOptimizer;
pub use burn_amp_decorator::optimizer::{Clipping, GradientNorm, Masters, Moments};
pub use clip::{clip, global_norm};
pub use config::OptimizerConfig;
pub use grad_scaler::{GradScaler, Scaled, ScalerError, Unscaled};
pub use list::{AmpAdaptor, StateRecord};
pub use loss_scale_optimizer::LossScaleOptimizer;
pub use master_model::MasterModel;
pub use master_state::MasterState;
pub use master_weights::MasterWeights;
pub use record::LossScaleOptimizerRecord;
pub use scheduler::HoldOnSkip;
