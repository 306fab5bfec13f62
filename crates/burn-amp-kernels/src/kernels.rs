//! [`AmpBackend`]: the ops of this crate on one backend.

use burn_backend::{
    Backend, FloatDType, Shape,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{
    affine::{self, Affine, Group, Moment, Moments, Rest, Sums},
    kernel::{Kernel, TensorsOf},
    made::Memory,
    reading::Reading,
    sign_mask::{self, SignMask},
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

    /// Starts to copy a tensor to the host, and returns its values without waiting for the device.
    ///
    /// This default polls the backend's read once. That is enough where a read begins with its first poll and waits in a
    /// later one.
    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        Reading::begin(Self::float_into_data(tensor))
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
