//! The ops of burn-amp-kernels for [`Counting`]: one launch each.

use burn_amp_kernels::{
    AmpBackend,
    kernel::{Kernel, Meta, Tensors, TensorsOf},
    made::Memory,
};
use burn_backend::{
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use super::{
    Counting,
    launches::{Size, record},
};

impl<B: AmpBackend> AmpBackend for Counting<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if K::IS_COMPOSED {
            return kernel.reference::<Self>(operands);
        }
        let read = metas(kernel.reads(operands.metas()));
        let results = B::run(kernel, operands);
        record(K::NAME, read, metas(results.metas()));
        results
    }

    fn fuses_elementwise() -> bool {
        B::fuses_elementwise()
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        B::float_memory(tensor)
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        B::int_memory(tensor)
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        B::bool_memory(tensor)
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        B::has_attention_kernel(options, has_bias)
    }
}

/// The size of all tensors that an op reads or writes.
fn metas(tensors: Tensors<Meta>) -> Size {
    let floats_and_ints = tensors.floats.iter().chain(&tensors.ints);
    floats_and_ints
        .chain(&tensors.bools)
        .fold(Size::default(), Size::plus)
}
