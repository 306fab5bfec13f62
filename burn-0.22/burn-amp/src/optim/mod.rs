//! Models in half precision, their master weights, and clipping of all gradients together.

mod cast_params;
mod clip;
mod master_weights;

pub use cast_params::cast_params;
pub use clip::{Clipping, clip, global_norm};
pub use master_weights::{MasterState, MasterWeights};
