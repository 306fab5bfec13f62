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

use burn_backend::{DType, FloatDType, Shape, ops::AttentionModuleOptions, tensor::FloatTensor};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement, tensor::CubeTensor,
};

use crate::{
    AmpBackend,
    affine::{self, Affine, Group, Moments, Rest, Sums},
    kernel::{Kernel, TensorsOf},
    reading::Reading,
    sign_mask::{self, SignMask},
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

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        read::read_later(tensor)
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
}

/// Returns whether one of the tensors is F64, which only the references compute.
fn has_f64<'a, R: CubeRuntime>(tensors: impl IntoIterator<Item = &'a CubeTensor<R>>) -> bool {
    tensors.into_iter().any(|tensor| tensor.dtype == DType::F64)
}
