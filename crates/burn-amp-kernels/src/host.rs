//! The backends that compute with the references: on the host, or by LibTorch.

#[cfg(feature = "flex")]
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor};

use crate::AmpBackend;
#[cfg(feature = "flex")]
use crate::{
    kernel::{Kernel, TensorsOf},
    memory::Memory,
};

#[cfg(feature = "flex")]
impl AmpBackend for burn_flex::Flex {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        let computed = kernel.on_host(operands);
        computed.unwrap_or_else(|operands| kernel.reference::<Self>(operands))
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        Some(Memory::on_host(tensor))
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        Some(Memory::on_host(tensor))
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        Some(Memory::on_host(tensor))
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        let [one_data, other_data] = [one, other].map(|tensor| tensor.data_arc());
        std::sync::Arc::ptr_eq(&one_data, &other_data)
            && one.layout() == other.layout()
            && one.dtype() == other.dtype()
    }
}

#[cfg(feature = "tch")]
impl<E: burn_tch::TchElement> AmpBackend for burn_tch::LibTorch<E> {}
