//! The ops on Burn's `Autodiff`, as one node of the graph each.
//!
//! Burn's `Autodiff` decomposes them into 5 to 8 ops, each of which saves its operands.

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{
    FloatDType,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{
    AmpBackend,
    affine::{self, Affine, Moment},
    kernel::{Kernel, TensorsOf},
    made::Memory,
    sign_mask,
};

impl<B: AmpBackend, C: CheckpointStrategy> AmpBackend for Autodiff<B, C> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        kernel.record::<B, C>(operands)
    }

    fn fuses_elementwise() -> bool {
        B::fuses_elementwise()
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

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        B::is_same(&one.primitive, &other.primitive)
    }

    fn masked_relu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        sign_mask::relu::<B, C>(x)
    }

    fn mul_zeros_and_ones(x: FloatTensor<Self>, mask: FloatTensor<Self>) -> FloatTensor<Self> {
        sign_mask::mul::<B, C>(x, mask)
    }

    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::recorded::<B, C>(x, affine, plus, dtype)
    }

    fn mixed_moment(x: FloatTensor<Self>, moment: Moment<Self>) -> FloatTensor<Self> {
        affine::recorded_moment::<B, C>(x, moment)
    }
}
