//! What ran in which precision, and where it overflowed.
//!
//! * [`record`] and [`Recording`]: a [`Report`] of some steps, from code
//! * [`every_pass`]: the same from `[report]` in `amp.toml`, without a change to the program
//! * [`last_overflow`]: the op with which the last overflow began, where `overflow.locate` looks for it
//! * [`recorder`]: adds up the calls
//! * [`work`]: the floating-point operations of a call

pub(crate) mod every_pass;
mod last_overflow;
mod recorder;
mod work;

pub use burn_amp_core::overflow::{Cause, NotFinite, Operand, Range};
pub use burn_amp_core::report::{
    Advice, Calls, Casting, Count, Difference, Lint, OpTotal, ReadError, Report, Site, Totals, Why,
    differences,
};
pub use last_overflow::last_overflow;
pub use recorder::{Recording, record};
