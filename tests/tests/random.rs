//! The random programs alone, for CUDA: a small part of the suite's code, so it compiles in a fraction of the time.

#[path = "suite/random/mod.rs"]
mod random;
