//! Numbers of eight bits and fewer, the scales of their blocks, and the recipes that products are computed by in them.
//!
//! * [`Format`]: the numbers themselves; [`Rounding`]: which of two a number becomes
//! * [`Blocks`], [`Scaling`], [`Quantizer`]: which numbers share a scale, and what it is
//! * [`Recipe`]: what each operand of a product is quantized by; [`Simulate`]: the recipe that training simulates
//! * [`Contraction`]: the dimensions that a product and its backward pass add over
//!
//! All of this is arithmetic on the host: it says what a number becomes, on any device.

mod blocks;
mod contraction;
mod format;
mod recipe;

pub use blocks::{Blocks, Lines, Quantized, Quantizer, Scaling};
pub use contraction::Contraction;
pub use format::{Format, Grid, Rounding};
pub use recipe::{Recipe, Simulate};
