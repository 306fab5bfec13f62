//! The ops of burn-amp-kernels for [`Counting`]: one launch each.

use burn_amp_core::DynamicLossScale;
use burn_amp_kernels::{
    AmpBackend,
    affine::{Affine, Group, Moments, Rest, Sums},
    kernel::{Kernel, Meta, Tensors, TensorsOf},
    layer_norm::{LayerNorm, LayerNormGradients},
    made::Memory,
    optimizer::{ListStep, Master, Moment, Stepped},
    sign_mask::SignMask,
    squares::Squares,
};
use burn_backend::{
    FloatDType, Shape,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use super::{
    Counting,
    launches::{Size, record},
    optimizer,
};

impl<B: AmpBackend> AmpBackend for Counting<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if K::IS_COMPOSED {
            return kernel.reference::<Self>(operands);
        }
        let read = metas(kernel.reads(operands.metas()));
        let Tensors {
            floats,
            ints,
            bools,
        } = B::run(
            kernel,
            Tensors {
                floats: operands.floats,
                ints: operands.ints,
                bools: operands.bools,
            },
        );
        let results = Tensors {
            floats,
            ints,
            bools,
        };
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

    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        let read = Size::default().all(&tensors);
        one("not_finite", read, B::not_finite(tensors))
    }

    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        let read = Size::default().all(&tensors);
        let results = B::unscale(tensors, factor);
        record("unscale", read, Size::default().all(&results));
        results
    }

    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        let read = Size::default().and(&state).and(&flags);
        let next = B::next_loss_scale(state, flags, scaling);
        one("next_loss_scale", read, next)
    }

    fn unscale_unless_overflowed(
        gradient: FloatTensor<Self>,
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let read = Size::default().and(&gradient).and(&before).and(&after);
        let result = B::unscale_unless_overflowed(gradient, before, after);
        one("unscale_unless_overflowed", read, result)
    }

    fn optimizer_step(step: ListStep<Self>) -> Vec<Stepped<Self>> {
        let common = [&step.scaled_by, &step.unless_overflowed, &step.clip];
        let mut read = Size::default().all(common.into_iter().flatten());
        for listed in &step.parameters {
            read = read.and(&listed.gradient);
            // A master in F32 is read in place of the parameter.
            if !matches!(listed.master, Some(Master::F32(_))) {
                read = read.and(&listed.parameter);
            }
            read = listed.master.iter().fold(read, master_size);
            read = listed.moments.iter().fold(read, moment_size);
        }
        let stepped = B::optimizer_step(optimizer::of_inner(step));
        let written = stepped.iter().fold(Size::default(), |size, stepped| {
            let size = size.and(&stepped.parameter);
            let size = size.all(&stepped.low);
            let size = stepped.master.iter().fold(size, master_size);
            stepped.moments.iter().fold(size, moment_size)
        });
        record("optimizer_step", read, written);
        stepped.into_iter().map(optimizer::of_outer).collect()
    }

    fn sum_of_squares(squares: Squares<Self>) -> FloatTensor<Self> {
        let Squares { tensors, scaled_by } = squares;
        let read = Size::default().all(tensors.iter().map(|(tensor, _)| tensor));
        let read = read.all(scaled_by.iter().flatten());
        let sum = B::sum_of_squares(Squares { tensors, scaled_by });
        one("sum_of_squares", read, sum)
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

    fn wide_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let read = Size::default().and(&lhs).and(&rhs);
        one("wide_matmul", read, B::wide_matmul(lhs, rhs))
    }

    fn column_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let read = Size::default().and(&x);
        one("column_sums", read, B::column_sums(x))
    }

    fn mixed_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
        copy: Option<FloatDType>,
    ) -> LayerNorm<Self> {
        let read = Size::default().and(&x).and(&gamma).all(&beta);
        let LayerNorm {
            output,
            copy,
            mean,
            inverse_std,
        } = B::mixed_layer_norm(x, gamma, beta, epsilon, copy);
        let written = Size::default().and(&output).all(&copy);
        let written = written.and(&mean).and(&inverse_std);
        record("mixed_layer_norm", read, written);
        LayerNorm {
            output,
            copy,
            mean,
            inverse_std,
        }
    }

    fn mixed_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_std: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<Self> {
        let read = Size::default()
            .and(&x)
            .and(&gamma)
            .and(&mean)
            .and(&inverse_std);
        let read = read.and(&grad);
        let LayerNormGradients { x, gamma, beta } =
            B::mixed_layer_norm_backward(x, gamma, mean, inverse_std, grad);
        let written = Size::default().and(&x).and(&gamma).and(&beta);
        record("mixed_layer_norm_backward", read, written);
        LayerNormGradients { x, gamma, beta }
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

fn moment_size<B: burn_backend::Backend>(size: Size, moment: &Moment<B>) -> Size {
    match moment {
        Moment::Wide(tensor) => size.and(tensor),
        Moment::Bf16(words) | Moment::Bits8(words) => size.and(words),
    }
}

fn master_size<B: burn_backend::Backend>(size: Size, master: &Master<B>) -> Size {
    match master {
        Master::F32(tensor) => size.and(tensor),
        Master::Offset(offset) => size.and(offset),
    }
}
