//! The ops of burn-amp-kernels for [`Counting`]: one launch each.

use burn_amp_kernels::{
    AmpBackend,
    affine::{Affine, Group, Moments, Rest, Sums},
    kernel::{Kernel, Meta, Tensors, TensorsOf},
    made::Memory,
    sign_mask::SignMask,
};
use burn_backend::{
    FloatDType, Shape,
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

    fn not_positive(x: FloatTensor<Self>) -> SignMask<Self> {
        let read = Size::default().and(&x);
        let mask = match B::not_positive(x) {
            SignMask::Bits(mask) => SignMask::Bits(mask),
            SignMask::Bools(mask) => SignMask::Bools(mask),
        };
        record("not_positive", read, size(&mask));
        mask
    }

    fn zeroed(x: FloatTensor<Self>, mask: SignMask<Self>) -> FloatTensor<Self> {
        let read = size(&mask).and(&x);
        let mask = match mask {
            SignMask::Bits(mask) => SignMask::Bits(mask),
            SignMask::Bools(mask) => SignMask::Bools(mask),
        };
        one("zeroed", read, B::zeroed(x, mask))
    }

    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let read = factors(&affine).and(&x).all(&plus);
        one(
            "mixed_affine",
            read,
            B::mixed_affine(x, below(affine), plus, dtype),
        )
    }

    fn mixed_affine_backward(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        rest: Rest<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        // Without a ReLU and squares the kernel has no use for `x`.
        let read = factors(&affine).and(&grad);
        let read = rest.tensors().into_iter().flatten().fold(read, Size::and);
        let reads_x = affine.relu || rest.of_squares.is_some();
        let read = if reads_x { read.and(&x) } else { read };
        let rest = Rest::of(rest.tensors().map(|tensor| tensor.cloned()));
        let dx = B::mixed_affine_backward(x, below(affine), grad, rest, dtype);
        one("mixed_affine_backward", read, dx)
    }

    fn mixed_affine_sums(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        group: Group,
    ) -> Sums<FloatTensor<Self>> {
        let read = factors(&affine).and(&x).and(&grad);
        let sums = B::mixed_affine_sums(x, below(affine), grad, group);
        let written = Size::default().and(&sums.of_gradient).and(&sums.of_product);
        record("mixed_affine_sums", read, written);
        sums
    }

    fn mixed_moments(
        x: FloatTensor<Self>,
        grid: Shape,
        before: Option<FloatTensor<Self>>,
        kept: Shape,
        mean: bool,
    ) -> Moments<FloatTensor<Self>> {
        let read = Size::default().and(&x).all(&before);
        let moments = B::mixed_moments(x, grid, before, kept, mean);
        let written = Size::default().and(&moments.sum).and(&moments.squares);
        record("mixed_moments", read, written);
        moments
    }
}

/// The size of a chain's factors.
fn factors<B: AmpBackend>(affine: &Affine<Counting<B>>) -> Size {
    let factors = affine.factors().into_iter().flatten();
    factors.fold(Size::default(), |size, factor| size.and(factor))
}

/// The chain on the backend below.
fn below<B: AmpBackend>(affine: Affine<Counting<B>>) -> Affine<B> {
    let factors = affine.factors().map(|factor| factor.cloned());
    affine.with_factors(factors)
}

/// Records a launch with one result.
fn one<T: burn_backend::TensorMetadata>(op: &'static str, read: Size, result: T) -> T {
    record(op, read, Size::default().and(&result));
    result
}

/// The size of all tensors that an op reads or writes.
fn metas(tensors: Tensors<Meta>) -> Size {
    let floats_and_ints = tensors.floats.iter().chain(&tensors.ints);
    floats_and_ints
        .chain(&tensors.bools)
        .fold(Size::default(), Size::plus)
}

/// The size of a mask, in the form that it has.
fn size<B: AmpBackend>(mask: &SignMask<B>) -> Size {
    match mask {
        SignMask::Bits(words) => Size::default().and(words),
        SignMask::Bools(bools) => Size::default().and(bools),
    }
}
