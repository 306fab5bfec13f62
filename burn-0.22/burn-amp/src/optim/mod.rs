//! Optimizers, and everything else between `backward()` and the new parameters.
//!
//! * [`AmpOptimizer`]: the one to start with; it follows the policy in force. Its [`AmpModuleOptimizer`] steps all parameters
//!   together if the optimizer is Adam, AdamW or SGD
//! * [`MasterWeights`]: F32 master weights for parameters stored in half precision, around any other optimizer
//! * [`cast_params`]: models in half precision
//! * [`Clipping`]: clipping by global norm and by value
//! * [`GradientNorm`]: the norm of the gradients of the last step
//! * [`HoldOnSkip`]: a learning rate scheduler that does not advance on a skipped step

mod amp_optimizer;
mod cast_params;
mod clip;
mod hold_on_skip;
mod list_config;
mod list_record;
mod master_weights;
mod module_optimizer;
#[path = "../../../../crates/burn-amp/src/modules.rs"]
mod modules;
mod one_step;
#[path = "../../../../crates/burn-amp/src/optim/outliers.rs"]
mod outliers;
#[path = "../../../../crates/burn-amp/src/optim/rule.rs"]
mod rule;

pub use amp_optimizer::AmpOptimizer;
pub use burn_amp_decorator::optimizer::{Clipping, GradientNorm, Masters, Moments};
pub use cast_params::cast_params;
pub use clip::{clip, global_norm};
pub use hold_on_skip::HoldOnSkip;
pub use list_config::ListConfig;
pub use master_weights::{MasterState, MasterWeights};
pub use module_optimizer::AmpModuleOptimizer;
