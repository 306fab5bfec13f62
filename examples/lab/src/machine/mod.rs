//! The device that computes: its backend, its name and its memory.

#[cfg(any(feature = "vulkan", feature = "cuda"))]
pub mod cube;
mod memory;

use std::{env::consts::ARCH, fs};

pub use self::memory::{BytesInUse, Meter};

pub struct Machine {
    /// The backend's name, such as `flex` or `cuda-fusion`.
    pub backend: &'static str,
    /// The hardware's name.
    pub device: String,
    pub meter: Meter,
    /// Whether it computes half precision by widening it to F32; then its times say nothing about other hardware.
    pub emulates_half: bool,
}

impl Machine {
    /// The CPU, with Burn's Flex.
    pub fn flex() -> Self {
        Self {
            backend: "flex",
            device: processor(),
            meter: Meter::Heap,
            emulates_half: true,
        }
    }
}

/// Returns the processor's model name as Linux reports it, else its architecture.
fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("model name"))
        .find_map(|line| line.split_once(':'))
        .map_or(ARCH, |(_, name)| name.trim())
        .to_owned()
}
