//! The models people train, for Burn 0.22: the sources of `examples/zoo`, from which `build.rs` takes the backend. They are
//! not loaded from files of PyTorch here.

mod example;
mod steps;
pub mod weights;

pub use steps::Steps;

include!(concat!(env!("OUT_DIR"), "/src/root.rs"));
