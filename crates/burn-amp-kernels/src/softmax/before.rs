//! What the operand of a softmax goes through first, inside a kernel.

use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    ScaleMask,
    mask_rows::{MaskRows, mask_rows},
};
use crate::cube::plan::storage;

/// A factor, if there is one, and a mask behind it.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Before<M: Int, N: Size> {
    scale: Sequence<f32>,
    mask: ComptimeOption<MaskRows<M, N>>,
}

#[cube]
impl<M: Int, N: Size> Before<M, N> {
    /// Returns the place of a row's first vector in the mask.
    pub fn mask_row(&self, row: usize) -> usize {
        #[comptime]
        match &self.mask {
            ComptimeOption::Some(mask) => mask.start(row),
            ComptimeOption::None => 0usize.runtime(),
        }
    }

    /// Returns a vector behind the factor and the mask; `at` is its place in the mask.
    pub fn score(&self, x: Vector<f32, N>, at: usize) -> Vector<f32, N> {
        let x = self.scaled(x);
        #[comptime]
        match &self.mask {
            ComptimeOption::Some(mask) => mask.filled(x, mask.value(), at),
            ComptimeOption::None => x,
        }
    }

    /// Returns the gradient of a vector from that of its score.
    pub fn gradient(&self, score: Vector<f32, N>, at: usize) -> Vector<f32, N> {
        let x = self.scaled(score);
        #[comptime]
        match &self.mask {
            ComptimeOption::Some(mask) => mask.filled(x, 0.0, at),
            ComptimeOption::None => x,
        }
    }

    fn scaled(&self, x: Vector<f32, N>) -> Vector<f32, N> {
        let mut x = x;
        #[unroll]
        for at in 0..self.scale.len() {
            x *= Vector::new(*self.scale.index(at));
        }
        x
    }
}

/// Passes them to a kernel that reads `vector_size` elements at once; returns the type of the mask's elements too. The
/// backward pass does not read the mask's value.
pub(super) fn before_arg<R: CubeRuntime, M: Int, N: Size>(
    before: ScaleMask<CubeTensor<R>>,
    operand: &Shape,
    vector_size: usize,
    is_backward: bool,
) -> (BeforeLaunch<M, N, R>, StorageType) {
    let ScaleMask { scale, mask } = before;
    let scale = Some(scale).filter(|scale| *scale != 1.0);
    let dtype = mask.as_ref().map_or(DType::U32, |mask| mask.elements.dtype);
    let mask = mask.map(|mask| {
        let value = (!is_backward).then_some(mask.value);
        mask_rows(mask.elements, value, operand, vector_size)
    });
    let before = BeforeLaunch::new(scale.into_iter().collect(), mask.into());
    (before, storage(dtype))
}
