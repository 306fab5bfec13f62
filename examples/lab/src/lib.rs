//! What the benchmark program and its twin in PyTorch measured, without Burn, so that it is read at once.
//!
//! * [`Entry`]: a run as a line of JSON; [`Lines`] appends, [`read_all`] reads
//! * [`Comparison`]: ours and PyTorch's side by side
//! * [`layout`]: tables of text

mod comparison;
mod entry;
pub mod layout;

pub use comparison::Comparison;
pub use entry::{Entry, F32, Lines, OURS, PYTORCH, read_all};
