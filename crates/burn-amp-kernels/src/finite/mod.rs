//! The finite check: which of many tensors have an element that is inf or NaN.
//!
//! [`not_finite`] takes a list of tensors of any float dtypes, shapes and layouts,
//! and returns an F32 tensor with one flag for each: 1 if the tensor has an element that is not finite, 0 if all
//! elements are finite or there are none. Each tensor is read once, only the flags are written, and one launch takes
//! several tensors. The kernel is that of [`unscale`](crate::unscale) too.

#[cfg(feature = "cubecl")]
mod kernel;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{EXPONENT, not_finite as launch};

use crate::prelude::*;

/// Returns a flag for each tensor, F32: 1 if it has an inf or a NaN, otherwise 0.
///
/// # Panics
///
/// Panics if there are no tensors.
pub fn not_finite<B: AmpBackend>(tensors: Vec<FloatTensor<B>>) -> FloatTensor<B> {
    B::run(NotFinite, tensors.into()).one()
}

/// The op of [`not_finite`].
#[derive(Clone, Copy, Debug)]
pub struct NotFinite;

impl Kernel for NotFinite {
    const NAME: &'static str = "burn_amp::not_finite";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [(Shape::new([operands.floats.len()]), DType::F32)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let tensors = operands.floats.into_iter();
        let mut flags: Vec<_> = tensors.map(flag::<B>).collect();
        [if flags.len() == 1 {
            flags.remove(0)
        } else {
            B::float_cat(flags, 0)
        }]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok(launch(operands.floats, None).into())
    }
}

/// Checks with Burn's ops that `abs(x) <= largest finite` for all elements of a tensor. In every backend a comparison with
/// NaN is false.
fn flag<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    if tensor.shape().num_elements() == 0 {
        let device = device_of::<B>(&tensor);
        return B::float_zeros(Shape::new([1]), &device, FloatDType::F32);
    }
    let finfo = tensor.dtype().finfo();
    let max = finfo.expect("float tensors have a float dtype").max;
    let bool_dtype = bool_dtype::<B>(&tensor);
    let bounded = B::float_lower_equal_elem(B::float_abs(tensor), max.into(), bool_dtype);
    let flag = B::bool_not(B::bool_all(bounded));
    B::bool_into_float(flag, FloatDType::F32)
}
