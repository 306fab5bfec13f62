//! What ran in which precision, and where it overflowed.
//!
//! * [`record`], [`record_with_samples`] and [`Recording`]: a [`Report`] of some steps, from code
//! * [`snapshot`]: the same as lines that a test compares with a file
//! * [`every_pass`]: the same from `[report]` in `amp.toml`, without a change to the program
//! * [`shadow`](shadow()), [`shadow_in_f64`]: how far ops are from F32, or F64
//! * [`last_overflow`]: the op with which the last overflow began, where `overflow.locate` looks for it
//! * [`health`](health()): gradients at the ends of a dtype's range, and updates that were lost
//! * [`treat_as_library`]: whose lines are no lines of the program
//! * [`recorder`]: adds up the calls; [`keeping`]: what their graphs keep
//! * [`work`]: the floating-point operations of a call

pub(crate) mod every_pass;
mod health;
mod keeping;
mod last_overflow;
mod recorder;
mod shadow;
mod work;

pub use burn_amp_core::health::{Counts, Look, ParameterHealth, Updates};
pub use burn_amp_core::overflow::{Cause, NotFinite, Operand, Range};
pub use burn_amp_core::report::{
    Advice, Calls, Casting, Count, Difference, Kept, Lint, OpTotal, PrecisionSnapshot, ReadError,
    Report, Sample, Site, SnapshotChanged, Totals, Why, differences,
};
pub use burn_amp_core::shadow::{ShadowReport, Shadowed};
pub use health::health;
pub use last_overflow::last_overflow;
pub use recorder::{Recording, record, record_with_samples, snapshot};
pub use shadow::{Shadowing, shadow, shadow_in_f64};

pub use crate::site::treat_as_library;
