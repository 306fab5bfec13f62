//! The sums of values, and of the squares of what they are off their mean, in one pass.

use super::reference::{reshaped, summed, terms};
#[cfg(feature = "cubecl")]
use super::sums_launch;
use crate::prelude::*;

/// The sums of the values of a tensor and of the squares of what they are off their mean, or the means of both: F32, in the shape
/// of what is kept.
#[derive(Clone, Debug)]
pub struct Spread<T> {
    /// The sum of the values, or the mean.
    pub sum: T,
    /// The sum of the squares of what each value is off the mean, or their mean: the variance.
    pub of_squares: T,
}

/// Computes both over the dimensions of a `grid`, the shape in which `x` is read, in which `kept` is 1.
pub fn spread<B: AmpBackend>(
    x: FloatTensor<B>,
    grid: Shape,
    kept: Shape,
    mean: bool,
) -> Spread<FloatTensor<B>> {
    let [sum, of_squares] = B::run(SpreadOf { grid, kept, mean }, [x].into()).exactly();
    Spread { sum, of_squares }
}

#[derive(Clone, Debug)]
struct SpreadOf {
    grid: Shape,
    kept: Shape,
    mean: bool,
}

impl Kernel for SpreadOf {
    const NAME: &'static str = "burn_amp::spread";

    fn results(&self, _: &Tensors<Meta>) -> Tensors<Meta> {
        [
            (self.kept.clone(), DType::F32),
            (self.kept.clone(), DType::F32),
        ]
        .into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = reshaped::<B>(widen::<B>(operands.one()), &self.grid);
        let divisor = terms(&self.grid, &self.kept);
        let sum = summed::<B>(x.clone(), &self.kept);
        let mean = B::float_div_scalar(sum.clone(), divisor.into());
        let off = B::float_sub(x, mean.clone());
        let squares = summed::<B>(B::float_mul(off.clone(), off), &self.kept);
        match self.mean {
            true => [mean, B::float_div_scalar(squares, divisor.into())].into(),
            false => [sum, squares].into(),
        }
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let Self { grid, kept, mean } = self;
        let spreads = sums_launch::spreads(&operands.floats[0], grid, kept, *mean);
        Ok(spreads.ok_or(operands)?.into())
    }
}
