//! Models in half precision, and their master weights.

mod cast_params;
mod master_weights;

pub use cast_params::cast_params;
pub use master_weights::{MasterState, MasterWeights};
