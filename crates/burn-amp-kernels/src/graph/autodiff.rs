//! The ops on Burn's `Autodiff`, as one node of the graph each.
//!
//! Burn's `Autodiff` decomposes them into 5 to 8 ops, each of which saves its operands.

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};

use crate::{
    AmpBackend,
    kernel::{Kernel, TensorsOf},
    memory::Memory,
};

impl<B: AmpBackend, C: CheckpointStrategy> AmpBackend for Autodiff<B, C> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        kernel.record::<B, C>(operands)
    }

    fn fuses_elementwise() -> bool {
        B::fuses_elementwise()
    }

    fn prepare(device: &Self::Device) {
        B::prepare(device);
    }

    fn runs_low_products(device: &Self::Device) -> bool {
        B::runs_low_products(device)
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        B::float_memory(&tensor.primitive)
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        B::int_memory(tensor)
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        B::bool_memory(tensor)
    }
}
