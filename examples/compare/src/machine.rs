//! What computes, and what must be known of it to judge a time.

use burn::tensor::{DType, backend::Backend};
use burn_backend::DTypeUsage;

use crate::memory::Meter;

pub struct Machine {
    /// `flex`, or `cuda-fusion`.
    pub backend: &'static str,
    pub meter: Meter,
    /// It computes half precision by widening it to F32, so that times say nothing about hardware that does not.
    pub emulates_half: bool,
    /// Its F32 products may run on tensor cores, with operands rounded to TF32.
    pub rounds_f32: bool,
}

/// How a device computes in a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// By widening to F32.
    Emulated,
    /// As in F32, without units of its own for matrix products.
    Plain,
    /// On units for matrix products.
    Accelerated,
}

/// A device.
#[cfg(any(feature = "vulkan", feature = "cuda"))]
impl From<bench_machine::Machine> for Machine {
    fn from(machine: bench_machine::Machine) -> Self {
        Self {
            backend: machine.backend,
            meter: machine.bytes_in_use.map_or(Meter::Heap, Meter::Device),
            emulates_half: false,
            rounds_f32: false,
        }
    }
}

impl Machine {
    /// The CPU, with Burn's Flex.
    pub fn flex() -> Self {
        Self {
            backend: "flex",
            meter: Meter::Heap,
            emulates_half: true,
            rounds_f32: false,
        }
    }

    pub fn hardware<P: Backend>(&self, device: &P::Device, dtype: DType) -> Hardware {
        match dtype {
            DType::F16 | DType::BF16 if self.emulates_half => Hardware::Emulated,
            _ if P::dtype_usage(device, dtype).contains(DTypeUsage::Accelerated) => {
                Hardware::Accelerated
            }
            _ => Hardware::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    #[test]
    fn flex_emulates_half_precision_only() {
        let hardware = |dtype| Machine::flex().hardware::<Flex>(&Default::default(), dtype);
        assert_eq!(hardware(DType::BF16), Hardware::Emulated);
        assert_eq!(hardware(DType::F32), Hardware::Plain);
    }
}
