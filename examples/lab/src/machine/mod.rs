//! What `bench` and `compare` ask of a machine beyond what Burn's `Backend` tells.

#[cfg(any(feature = "vulkan", feature = "cuda"))]
pub mod cube;
pub mod memory;
pub mod panics;

use std::{env::consts::ARCH, fs};

/// The bytes that tensors hold on the device at this moment; `None` where it does not answer.
pub type BytesInUse = Box<dyn Fn() -> Option<u64> + Send + Sync>;

pub struct Machine {
    /// `flex`, or `cuda-fusion`.
    pub backend: &'static str,
    /// The hardware's name.
    pub device: String,
    /// `None` where the backend does not count.
    pub bytes_in_use: Option<BytesInUse>,
}

impl Machine {
    /// The CPU, with Burn's Flex.
    pub fn flex() -> Self {
        Self {
            backend: "flex",
            device: processor(),
            bytes_in_use: None,
        }
    }
}

/// The processor's model name, where Linux tells it, else its architecture.
fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("model name"))
        .find_map(|line| line.split_once(':'))
        .map_or(ARCH, |(_, name)| name.trim())
        .to_owned()
}
