//! The laws of all ops alone, for CUDA: a small part of the suite's code, so it compiles in a fraction of the time.

#[path = "suite/laws/mod.rs"]
mod laws;
