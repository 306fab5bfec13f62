//! The sum of the squares of many gradients, from which their global norm follows.
//!
//! [`sum`] takes a list of tensors of any float dtypes, shapes
//! and layouts with a factor for each, and returns one F32 number, as `[1]`: the sum of the squares of all elements
//! times their factors. Each tensor is read once. The kernel adds in F32, in an order that depends on the shapes and the
//! layouts alone, so the sum has the same bits every time.

#[cfg(feature = "cubecl")]
mod kernel;

use crate::{loss_scale::unscale_unless_overflowed, prelude::*};

/// Gradients with their factors, all on one device.
#[derive(Clone, Debug)]
pub struct Squares<B: Backend> {
    /// The tensors, each with a factor that the host knows. There is at least one.
    pub tensors: Vec<(FloatTensor<B>, f32)>,
    /// The states of the loss scale before and after the backward pass of all tensors, which are divided by its scale; see
    /// [`loss_scale`](crate::loss_scale). If the pass overflowed, the sum is 0.
    pub scaled_by: Option<[FloatTensor<B>; 2]>,
}

/// Returns the sum of the squares of many tensors, as `[1]`, F32.
pub fn sum<B: AmpBackend>(squares: Squares<B>) -> FloatTensor<B> {
    let Squares { tensors, scaled_by } = squares;
    let (mut tensors, factors): (Vec<_>, Vec<_>) = tensors.into_iter().unzip();
    tensors.extend(scaled_by.into_iter().flatten());
    B::run(Sum { factors }, tensors.into()).one()
}

/// The factors of the tensors, which two states may follow.
#[derive(Clone, Debug)]
struct Sum {
    factors: Vec<f32>,
}

impl Kernel for Sum {
    const NAME: &'static str = "burn_amp::sum_of_squares";

    fn results(&self, _: &Tensors<Meta>) -> Tensors<Meta> {
        [(Shape::new([1]), DType::F32)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let mut tensors = operands.floats;
        let states = tensors.split_off(self.factors.len());
        let tensors = tensors.into_iter().zip(&self.factors);
        let sums = tensors.map(|(mut tensor, factor)| {
            // burn-cubecl 0.21.0 computes a negative size for an empty operand.
            if tensor.shape().num_elements() == 0 {
                let device = device_of::<B>(&tensor);
                return B::float_zeros(Shape::new([1]), &device, FloatDType::F32);
            }
            if *factor != 1.0 {
                tensor = B::float_mul_scalar(widen::<B>(tensor), (*factor).into());
            }
            if let [before, after] = &states[..] {
                tensor = unscale_unless_overflowed::<B>(tensor, before.clone(), after.clone());
            }
            let tensor = cast::<B>(tensor, DType::F32);
            B::float_sum(B::float_powi_scalar(tensor, 2.into()))
        });
        let sum = sums.reduce(B::float_add);
        [sum.expect("there is a tensor to square")].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let mut tensors = operands.floats;
        let states = tensors.split_off(self.factors.len());
        Ok([kernel::sum_of_squares(tensors, &self.factors, &states)].into())
    }
}
