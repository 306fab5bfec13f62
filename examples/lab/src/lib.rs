//! The parts that `bench`, `compare` and `footprint` share.
//!
//! * [`choice`], [`cli`]: a model with its settings, and the backend, as both command lines take them
//! * [`precision`], [`recipe`]: the precisions, and how a model is trained in each
//! * [`machine`], [`panics`]: the device with its memory meter, and panics as values
//! * [`entry`]: a measured run as a line of JSON
//! * [`table`], [`statistics`]: numbers for a reader

pub mod choice;
pub mod cli;
pub mod entry;
pub mod machine;
pub mod panics;
pub mod precision;
pub mod recipe;
pub mod statistics;
pub mod table;
