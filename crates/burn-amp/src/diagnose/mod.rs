//! What ran in which precision.
//!
//! * [`record`] and [`Recording`]: a [`Report`] of some steps, from code
//! * [`every_pass`]: the same from `[report]` in `amp.toml`, without a change to the program
//! * [`recorder`]: adds up the calls
//! * [`work`]: the floating-point operations of a call
//! * [`site`]: the line of the program that called an op

pub(crate) mod every_pass;
mod recorder;
mod site;
mod work;

pub use burn_amp_core::report::{
    Calls, Casting, Count, Difference, OpTotal, ReadError, Report, Site, Totals, Why, differences,
};
pub use recorder::{Recording, record};
