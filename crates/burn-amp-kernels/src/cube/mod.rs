//! The kernels, for every backend made of burn-cubecl.
//!
//! * [`plan`], [`row`], [`team`]: kernels over rows, on the host, in a unit, and among units
//! * [`lists`]: kernels over many tensors
//! * [`read`]: a tensor on its way to the host
//!
//! Kernels compute in F32, so operands in F64 go to the references.

pub(crate) mod lists;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod row;
pub(crate) mod team;

use burn_amp_core::DynamicLossScale;
use burn_backend::{
    DType, FloatDType, Shape, TensorMetadata, ops::AttentionModuleOptions, tensor::FloatTensor,
};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement,
    kernel::matmul::{MatmulStrategy, matmul},
    ops::reshape,
    tensor::CubeTensor,
};

use crate::{
    AmpBackend,
    affine::{self, Affine, Group, Moments, Rest, Sums},
    finite,
    kernel::{Kernel, TensorsOf},
    layer_norm::{self, LayerNorm, LayerNormGradients},
    loss_scale,
    optimizer::{self, ListStep, Stepped},
    reading::Reading,
    sign_mask::{self, SignMask},
    squares::{self, Squares},
    unscale, weight_product,
    widen::cast,
};

impl<R, F, I, BT> AmpBackend for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if !K::READS_F64 && has_f64(&operands.floats) {
            return kernel.reference::<Self>(operands);
        }
        let launched = kernel.launch::<R>(operands);
        launched.unwrap_or_else(|operands| kernel.reference::<Self>(operands))
    }

    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        if has_f64(&tensors) {
            return finite::reference::<Self>(tensors);
        }
        finite::not_finite(tensors)
    }

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        read::read_later(tensor)
    }

    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        if has_f64(&tensors) {
            return unscale::reference::<Self>(tensors, factor);
        }
        unscale::unscale(tensors, factor)
    }

    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        loss_scale::next_loss_scale(state, flags, scaling)
    }

    fn unscale_unless_overflowed(
        gradient: FloatTensor<Self>,
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if has_f64([&gradient]) {
            return loss_scale::reference_unscale::<Self>(gradient, before, after);
        }
        loss_scale::unscale_unless_overflowed(gradient, before, after)
    }

    fn optimizer_step(step: ListStep<Self>) -> Vec<Stepped<Self>> {
        let mut tensors = step.parameters.iter();
        if tensors.any(|listed| has_f64([&listed.parameter, &listed.gradient])) {
            return optimizer::reference::<Self>(step);
        }
        optimizer::optimizer_step(step)
    }

    fn sum_of_squares(squares: Squares<Self>) -> FloatTensor<Self> {
        if has_f64(squares.tensors.iter().map(|(tensor, _)| tensor)) {
            return squares::reference::<Self>(squares);
        }
        squares::sum_of_squares(squares)
    }

    fn not_positive(x: FloatTensor<Self>) -> SignMask<Self> {
        if has_f64([&x]) {
            return sign_mask::reference::<Self>(x);
        }
        SignMask::Bits(sign_mask::not_positive(x))
    }

    fn zeroed(x: FloatTensor<Self>, mask: SignMask<Self>) -> FloatTensor<Self> {
        match mask {
            SignMask::Bits(mask) => sign_mask::zeroed(x, mask),
            SignMask::Bools(_) => sign_mask::reference_zeroed::<Self>(x, mask),
        }
    }

    fn not_positive_as(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> SignMask<Self> {
        Self::not_positive(affine::ordered_as(tensor, x))
    }

    fn zeroed_as(
        tensor: FloatTensor<Self>,
        mask: SignMask<Self>,
        x: &FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        affine::restored_as(Self::zeroed(affine::ordered_as(tensor, x), mask), x)
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        !has_bias && options.softcap.is_none() && options.scale.is_none()
    }

    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::affine(&x, &affine, plus.as_ref(), dtype)
            .unwrap_or_else(|| affine::reference::<Self>(x, affine, plus, dtype))
    }

    fn mixed_affine_backward(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        rest: Rest<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::affine_backward(&x, &affine, &grad, &rest, dtype)
            .unwrap_or_else(|| affine::reference_backward::<Self>(x, affine, grad, rest, dtype))
    }

    fn in_order_of(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> FloatTensor<Self> {
        affine::in_order_of(tensor, x)
    }

    fn mixed_affine_sums(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        group: Group,
    ) -> Sums<FloatTensor<Self>> {
        affine::sums(&x, &affine, &grad, group)
            .unwrap_or_else(|| affine::reference_sums::<Self>(x, affine, grad, group))
    }

    fn mixed_moments(
        x: FloatTensor<Self>,
        grid: Shape,
        before: Option<FloatTensor<Self>>,
        kept: Shape,
        mean: bool,
    ) -> Moments<FloatTensor<Self>> {
        let centered = Affine::<Self> {
            before: before.clone(),
            ..Affine::identity(grid.clone())
        };
        affine::moments(&x, &centered, &kept, mean)
            .unwrap_or_else(|| affine::reference_moments::<Self>(x, grid, before, kept, mean))
    }

    fn wide_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        if has_f64([&lhs]) {
            return weight_product::reference_matmul::<Self>(lhs, rhs);
        }
        matmul(lhs, rhs, None, MatmulStrategy::default(), DType::F32)
            .expect("a product of matrices has a kernel on every device")
    }

    fn column_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        if let Some(sums) = weight_product::column_sums(&x) {
            return sums;
        }
        let columns = x.shape()[1];
        let affine = Affine::<Self>::identity(x.shape());
        match affine::moments(&x, &affine, &Shape::new([1, columns]), false) {
            Some(moments) => reshape(moments.sum, Shape::new([columns])),
            None => weight_product::reference_sums::<Self>(x),
        }
    }

    fn mixed_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
        copy: Option<FloatDType>,
    ) -> LayerNorm<Self> {
        if has_f64([&x]) {
            return layer_norm::reference::<Self>(x, gamma, beta, epsilon, copy);
        }
        let in_f32 = |tensor| cast::<Self>(tensor, DType::F32);
        let copy = copy.map(DType::from);
        let (output, copy, [mean, inverse_std]) =
            layer_norm::layer_norm(x, in_f32(gamma), beta.map(in_f32), epsilon, copy);
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
        if has_f64([&x, &grad]) {
            return layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad);
        }
        let gamma = cast::<Self>(gamma, DType::F32);
        match layer_norm::layer_norm_backward(&x, &gamma, &mean, &inverse_std, &grad) {
            Some([x, gamma, beta]) => LayerNormGradients { x, gamma, beta },
            None => layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad),
        }
    }
}

/// Returns whether one of the tensors is F64, which only the references compute.
fn has_f64<'a, R: CubeRuntime>(tensors: impl IntoIterator<Item = &'a CubeTensor<R>>) -> bool {
    tensors.into_iter().any(|tensor| tensor.dtype == DType::F64)
}
