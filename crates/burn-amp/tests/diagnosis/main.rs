//! What burn-amp says of a program: reports, comparisons with F32, overflows, steps that are run again.
//!
//! They are in a package with line tables, because they name lines of this folder, and one binary, because each binary
//! compiles most of Burn again.

mod common;
mod overflow;
mod replay;
mod report;
mod shadow;
