//! Chains without their tensors, which are in a list.

use burn_backend::{Backend, Shape, tensor::FloatTensor};

use super::{Affine, Rest};

/// A chain without its factors.
#[derive(Clone, Debug)]
pub(super) struct ChainParts {
    grid: Shape,
    divides: bool,
    pub(super) relu: bool,
    /// Which of the factors there are.
    factors: [bool; 4],
}

impl ChainParts {
    /// Takes a chain apart. Its factors are appended to the list.
    pub(super) fn of<B: Backend>(affine: Affine<B>, tensors: &mut Vec<FloatTensor<B>>) -> Self {
        let parts = Self {
            factors: affine.factors().map(|factor| factor.is_some()),
            grid: affine.grid,
            divides: affine.divides,
            relu: affine.relu,
        };
        let Affine {
            before,
            scale,
            rescale,
            after,
            ..
        } = affine;
        tensors.extend([before, scale, rescale, after].into_iter().flatten());
        parts
    }

    /// Puts the chain together again with the factors that are next in the list.
    pub(super) fn chain<B: Backend>(
        &self,
        tensors: &mut impl Iterator<Item = FloatTensor<B>>,
    ) -> Affine<B> {
        let [before, scale, rescale, after] = of_those(self.factors, tensors);
        Affine {
            grid: self.grid.clone(),
            before,
            scale,
            divides: self.divides,
            rescale,
            after,
            relu: self.relu,
        }
    }
}

/// Puts the rest of a gradient together with the tensors that are next in the list.
pub(super) fn rest<B: Backend>(
    there: [bool; 4],
    tensors: &mut impl Iterator<Item = FloatTensor<B>>,
) -> Rest<B> {
    let [before, of_squares, of_sum, plus] = of_those(there, tensors);
    Rest {
        before,
        of_squares,
        of_sum,
        plus,
    }
}

/// Takes the tensors that are there.
fn of_those<T>(there: [bool; 4], tensors: &mut impl Iterator<Item = T>) -> [Option<T>; 4] {
    there.map(|there| there.then(|| next(tensors)))
}

/// The next tensor of the list.
pub(super) fn next<T>(tensors: &mut impl Iterator<Item = T>) -> T {
    tensors
        .next()
        .expect("a chain has the tensors of its parts")
}
