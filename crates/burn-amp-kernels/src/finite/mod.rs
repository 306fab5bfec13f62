//! The finite check: which of many tensors have an element that is inf or NaN.
//!
//! [`not_finite`] takes a list of tensors of any float dtypes, shapes and layouts,
//! and returns an F32 tensor with one flag for each: 1 if the tensor has an element that is not finite, 0 if all
//! elements are finite or there are none. Each tensor is read once, only the flags are written, and one launch takes
//! several tensors. The kernel is that of [`unscale`](crate::unscale) too.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::{EXPONENT, not_finite as launch};
pub use reference::reference;

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
        [reference::<B>(operands.floats)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok(launch(operands.floats, None).into())
    }
}
