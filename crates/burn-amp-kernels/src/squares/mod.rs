//! The sum of the squares of many gradients, from which their global norm follows.
//!
//! [`sum`] takes a list of tensors of any float dtypes, shapes
//! and layouts with a factor for each, and returns one F32 number, as `[1]`: the sum of the squares of all elements
//! times their factors. Each tensor is read once. The kernel adds in F32, in an order that depends on the shapes and the
//! layouts alone, so the sum has the same bits every time.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

pub use reference::reference;

use crate::prelude::*;

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
        [reference::<B>(Squares {
            tensors: tensors.into_iter().zip(self.factors.clone()).collect(),
            scaled_by: states.try_into().ok(),
        })]
        .into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let mut tensors = operands.floats;
        let states = tensors.split_off(self.factors.len());
        Ok([kernel::sum_of_squares(tensors, &self.factors, &states)].into())
    }
}
