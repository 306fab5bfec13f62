//! Why a run is not the golden one.

use std::io;

use burn_amp_decorator::replay::ReadError;

/// The reason why a run is not the golden one.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The file cannot be read or written.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The calls of the first step cannot be read.
    #[error("the calls of the first step, {file}: {error}")]
    Calls {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: ReadError,
    },
    /// A line of the file is none of a golden run.
    #[error(
        "{file}:{line}: expected `[name]`, or the number of a step and two numbers of 32 bits in hexadecimal digits"
    )]
    Syntax {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// The file has no run of this backend and dtype.
    #[error("{file} has no run of {name}, but {found}; BLESS=1 adds it")]
    Missing {
        /// The file.
        file: String,
        /// The backend and the dtype.
        name: String,
        /// The runs that it has.
        found: String,
    },
    /// The runs have different numbers of steps.
    #[error("{name}: {found} steps, and {expected} in the file")]
    Steps {
        /// The backend and the dtype.
        name: String,
        /// The steps of this run.
        found: usize,
        /// The steps in the file.
        expected: usize,
    },
    /// A step computes other bits.
    #[error(
        "{name}: the {what} of step {step} is {found:e}, and {expected:e} in the file, {ulps} units in the last place away. {cause}"
    )]
    Differs {
        /// The backend and the dtype.
        name: String,
        /// The step, counted from 1.
        step: usize,
        /// The loss or the gradient norm.
        what: &'static str,
        /// The value of this run.
        found: f32,
        /// The value in the file.
        expected: f32,
        /// The units in the last place between them.
        ulps: u32,
        /// The first call that is another one, or how to find it.
        cause: String,
    },
}
