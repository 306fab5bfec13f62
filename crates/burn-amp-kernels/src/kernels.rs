//! [`AmpBackend`]: the ops of this crate on one backend.

use burn_amp_core::DynamicLossScale;
use burn_backend::{
    Backend, FloatDType, Shape,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{
    affine::{self, Affine, Group, Moment, Moments, Rest, Sums},
    attention::{self, Attention, AttentionGradients},
    finite,
    kernel::{Kernel, TensorsOf},
    layer_norm::{self, LayerNorm, LayerNormGradients},
    loss_scale,
    made::Memory,
    optimizer::{self, ListStep, Stepped},
    reading::Reading,
    sign_mask::{self, SignMask},
    squares::{self, Squares},
    unscale, weight_product,
};

/// A backend with the ops of this crate; every provided method computes with the reference.
///
/// `mixed_*` are the ops in mixed precision: they read their operand as it is stored, compute in F32 (F64 for F64), and
/// round once, when they write. The prefix distinguishes them from Burn's own ops of the same name, which this trait
/// inherits.
#[diagnostic::on_unimplemented(
    message = "burn-amp does not know the backend `{Self}`",
    label = "no kernels for this backend",
    note = "turn on burn-amp's feature for the backend (`flex`, `cuda`, `vulkan`, `cubecl`, `tch`; with Burn's `fusion` also burn-amp's)",
    note = "or, for a backend of your own: `impl burn_amp::AmpBackend for MyBackend {{}}`",
    note = "or, in code that is generic over the plain backend: the bound `B: burn_amp::AmpBackend`"
)]
pub trait AmpBackend: Backend {
    /// Runs an op: by its kernel if the backend has one for it, otherwise by the reference.
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        kernel.reference::<Self>(operands)
    }

    /// Whether the backend makes one kernel of elementwise ops that follow each other, as Burn's Fusion does. Then a cast
    /// costs nothing beside the op that reads its result.
    fn fuses_elementwise() -> bool {
        false
    }

    /// Returns a weak reference to the memory of a float tensor; `None` where the backend has none.
    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Whether both are clones of one tensor. A backend that cannot say so returns `false`.
    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        let _ = (one, other);
        false
    }

    /// Returns the memory of an int tensor, as [`float_memory`](Self::float_memory) does.
    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Returns the memory of a bool tensor, as [`float_memory`](Self::float_memory) does.
    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Flags the tensors that have an inf or a NaN; see [`finite`].
    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        finite::reference::<Self>(tensors)
    }

    /// Starts to copy a tensor to the host, and returns its values without waiting for the device.
    ///
    /// This default polls the backend's read once. That is enough where a read begins with its first poll and waits in a
    /// later one.
    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        Reading::begin(Self::float_into_data(tensor))
    }

    /// Multiplies many tensors by one factor in F32, and flags those that are not finite; see [`unscale`].
    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        unscale::reference::<Self>(tensors, factor)
    }

    /// Computes the state of the loss scale after a backward pass; see [`loss_scale`].
    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        loss_scale::reference_next::<Self>(state, flags, scaling)
    }

    /// Divides a gradient by the scale of its pass, or zeroes it if the pass overflowed; see [`loss_scale`].
    fn unscale_unless_overflowed(
        gradient: FloatTensor<Self>,
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        loss_scale::reference_unscale::<Self>(gradient, before, after)
    }

    /// Steps a list of parameters, which has at least one; see [`optimizer`].
    fn optimizer_step(step: ListStep<Self>) -> Vec<Stepped<Self>> {
        optimizer::reference::<Self>(step)
    }

    /// Returns the sum of the squares of many tensors, as `[1]`; see [`squares`].
    fn sum_of_squares(squares: Squares<Self>) -> FloatTensor<Self> {
        squares::reference::<Self>(squares)
    }

    /// Makes the mask of the elements that are 0 or less; see [`sign_mask`].
    fn not_positive(x: FloatTensor<Self>) -> SignMask<Self> {
        sign_mask::reference::<Self>(x)
    }

    /// Sets the elements to 0 that a [`SignMask`] marks.
    fn zeroed(x: FloatTensor<Self>, mask: SignMask<Self>) -> FloatTensor<Self> {
        sign_mask::reference_zeroed::<Self>(x, mask)
    }

    /// The mask of a tensor of the shape of `x`, for [`zeroed_as`](Self::zeroed_as) with the same `x`: a backend may pack
    /// it in the order in which `x` lies in memory.
    fn not_positive_as(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> SignMask<Self> {
        let _ = x;
        Self::not_positive(tensor)
    }

    /// Sets the elements to 0 that a mask made by [`not_positive_as`](Self::not_positive_as) marks.
    fn zeroed_as(
        tensor: FloatTensor<Self>,
        mask: SignMask<Self>,
        x: &FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let _ = x;
        Self::zeroed(tensor, mask)
    }

    /// Burn's `relu`, of which a graph keeps the output in low precision or a [`SignMask`].
    fn masked_relu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu(x)
    }

    /// The product of `x` and a tensor of zeros and ones, of which a graph keeps a [`SignMask`].
    fn mul_zeros_and_ones(x: FloatTensor<Self>, mask: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_mul(x, mask)
    }

    /// Whether Burn's `attention` is a kernel of this backend, which accumulates in F32, for calls with these options.
    /// Otherwise the backend composes it of several ops in the dtype of its operands.
    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        let _ = (options, has_bias);
        true
    }

    /// A chain of sums and products of a tensor and small factors in mixed precision, with an optional tensor added before
    /// the ReLU; see [`affine`].
    fn mixed_affine(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        plus: Option<FloatTensor<Self>>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::reference::<Self>(x, affine, plus, dtype)
    }

    /// The gradient of [`mixed_affine`](Self::mixed_affine) with respect to `x`, plus the gradients of its other readers.
    fn mixed_affine_backward(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        rest: Rest<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        affine::reference_backward::<Self>(x, affine, grad, rest, dtype)
    }

    /// The same values, in the order of memory in which the chains' ops read `x`, a tensor of the same shape. Worth it
    /// for a tensor that is read several times.
    fn in_order_of(tensor: FloatTensor<Self>, x: &FloatTensor<Self>) -> FloatTensor<Self> {
        let _ = x;
        tensor
    }

    /// The sums that the gradients of a group of factors are made of. The group must not be empty.
    fn mixed_affine_sums(
        x: FloatTensor<Self>,
        affine: Affine<Self>,
        grad: FloatTensor<Self>,
        group: Group,
    ) -> Sums<FloatTensor<Self>> {
        affine::reference_sums::<Self>(x, affine, grad, group)
    }

    /// The sums, or the means, of `x + before` and of its square in mixed precision, of the shape `kept`; see [`affine`].
    fn mixed_moments(
        x: FloatTensor<Self>,
        grid: Shape,
        before: Option<FloatTensor<Self>>,
        kept: Shape,
        mean: bool,
    ) -> Moments<FloatTensor<Self>> {
        affine::reference_moments::<Self>(x, grid, before, kept, mean)
    }

    /// One of the [`mixed_moments`](Self::mixed_moments).
    fn mixed_moment(x: FloatTensor<Self>, moment: Moment<Self>) -> FloatTensor<Self> {
        affine::reference_moment::<Self>(x, moment)
    }

    /// The product of a matrix with weights that were cast from an F32 parameter, plus an F32 bias; see
    /// [`weight_product`].
    fn weight_product(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        weight_product::reference::<Self>(x, weight, bias)
    }

    /// The product of two matrices in low precision, in F32; see [`weight_product`].
    fn wide_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        weight_product::reference_matmul::<Self>(lhs, rhs)
    }

    /// The sums of the columns of a matrix, in F32, of shape `[columns]`; see [`weight_product`].
    fn column_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        weight_product::reference_sums::<Self>(x)
    }

    /// Attention in mixed precision; see [`attention`].
    fn mixed_attention(operands: Attention<Self>) -> FloatTensor<Self> {
        attention::reference::<Self>(operands)
    }

    /// The gradients of [`mixed_attention`](Self::mixed_attention).
    fn mixed_attention_backward(
        operands: Attention<Self>,
        grad: FloatTensor<Self>,
    ) -> AttentionGradients<Self> {
        attention::reference_backward::<Self>(operands, grad)
    }

    /// Layer normalization in mixed precision, with a copy of the output in another dtype; see [`layer_norm`].
    fn mixed_layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
        copy: Option<FloatDType>,
    ) -> LayerNorm<Self> {
        layer_norm::reference::<Self>(x, gamma, beta, epsilon, copy)
    }

    /// The gradients of [`mixed_layer_norm`](Self::mixed_layer_norm).
    fn mixed_layer_norm_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_std: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<Self> {
        layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad)
    }
}

#[cfg(feature = "flex")]
impl AmpBackend for burn_flex::Flex {
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

    fn not_positive(x: FloatTensor<Self>) -> SignMask<Self> {
        sign_mask::not_positive_on_host(x)
    }

    fn zeroed(x: FloatTensor<Self>, mask: SignMask<Self>) -> FloatTensor<Self> {
        sign_mask::zeroed_on_host(x, mask)
    }
}

#[cfg(feature = "tch")]
impl<E: burn_tch::TchElement> AmpBackend for burn_tch::LibTorch<E> {}
