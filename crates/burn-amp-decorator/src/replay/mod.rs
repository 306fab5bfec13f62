//! Runs a step of training again that a run has written to a file.
//!
//! [`replay`](replay()) runs it in three forms: in the dtypes in which it was recorded, in F32 and in F64. Each call goes
//! by the function of its op in `cast/again.rs`.

mod call;
mod compare;
mod gradients;
mod program;
mod recipes;
mod run;
mod step_losses;
mod unit;
mod write;

pub use burn_amp_core::replay::{
    Argument, Call, Change, Compared, Comparison, Data, Distance, Dtype, Form, GradientRange,
    GradientRanges, Loss, Nature, Outside, Produced, ProductLosses, ReadError, RecipeLosses,
    Replayed, Same, Sketch, Step, StepLosses, TensorDifference, Use, Values, changes,
};

pub use compare::{Side, compare};
pub use gradients::gradient_ranges;
pub use recipes::recipe_losses;
pub use run::{ReplayError, replay};
pub use write::write_next_step;
