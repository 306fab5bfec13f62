//! Runs a step of training again that `overflow.replay` has written to a file.
//!
//! [`replay`](replay()) runs it in three forms: in the dtypes in which it was recorded, in F32 and in F64. Each call goes
//! by the function of its op in `cast/again.rs`.

mod call;
mod run;

pub use burn_amp_core::replay::{
    Argument, Call, Data, Dtype, Form, Nature, Outside, Produced, ReadError, Replayed, Same, Step,
    Use, Values,
};

pub use run::{ReplayError, replay};
