//! Unscaling: many tensors times one factor, in F32.
//!
//! [`unscale`] takes a list of tensors of any float dtypes and layouts, and a factor.
//! It returns `tensor × factor` for each of them, in F32 (F64 for F64), and as the last tensor the flags of the [finite
//! check](crate::finite) of the operands. Each tensor is read once and written once; Burn's ops would cast it, multiply
//! it, and read it again for the flag.

use crate::{finite, prelude::*, widen::empty_wide_like};

/// Multiplies tensors by a factor in F32. The last result has the flags of those that are not finite.
///
/// # Panics
///
/// Panics if there are no tensors.
pub fn unscale<B: AmpBackend>(tensors: Vec<FloatTensor<B>>, factor: f32) -> Vec<FloatTensor<B>> {
    B::run(Unscale { factor }, tensors.into()).floats
}

#[derive(Clone, Copy, Debug)]
struct Unscale {
    factor: f32,
}

impl Kernel for Unscale {
    const NAME: &'static str = "burn_amp::unscale";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let tensors = operands.floats.iter();
        let results = tensors.map(|(shape, dtype)| (shape.clone(), wide_dtype(*dtype)));
        let flags = (Shape::new([operands.floats.len()]), DType::F32);
        results.chain([flags]).collect::<Vec<_>>().into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let flags = finite::not_finite::<B>(operands.floats.clone());
        let unscaled = operands.floats.into_iter().map(|tensor| {
            // burn-cubecl 0.21.0 computes a negative size for an empty operand.
            if tensor.shape().num_elements() == 0 {
                empty_wide_like::<B>(&tensor)
            } else {
                B::float_mul_scalar(widen::<B>(tensor), self.factor.into())
            }
        });
        unscaled.chain([flags]).collect::<Vec<_>>().into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok(finite::launch(operands.floats, Some(self.factor)).into())
    }
}
