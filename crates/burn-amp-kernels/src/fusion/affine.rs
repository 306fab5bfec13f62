//! Chains and moments as operations of the stream: their tensors in one list, and the rest of their description.

use burn_backend::{Backend, DType, Shape, tensor::FloatTensor};

use crate::affine::{Affine, Rest};

/// A chain without its tensors.
#[derive(Clone, Debug)]
pub(super) struct ChainParts {
    grid: Shape,
    divides: bool,
    relu: bool,
    /// Which of the factors there are.
    factors: [bool; 4],
}

impl ChainParts {
    /// Takes a chain apart. Its factors are appended to the list.
    pub(super) fn of<B: Backend>(affine: Affine<B>, tensors: &mut Vec<FloatTensor<B>>) -> Self {
        let parts = Self {
            grid: affine.grid.clone(),
            divides: affine.divides,
            relu: affine.relu,
            factors: affine.factors().map(|factor| factor.is_some()),
        };
        tensors.extend(affine.factors().into_iter().flatten().cloned());
        parts
    }

    /// Puts the chain together again with the factors that are next in the list.
    pub(super) fn chain<B: Backend>(
        &self,
        tensors: &mut impl Iterator<Item = FloatTensor<B>>,
    ) -> Affine<B> {
        let factors = self.factors.map(|there| there.then(|| next(tensors)));
        Affine::<B> {
            divides: self.divides,
            relu: self.relu,
            ..Affine::identity(self.grid.clone())
        }
        .with_factors(factors)
    }
}

/// Which tensors of a [`Rest`] there are.
#[derive(Clone, Debug)]
pub(super) struct RestParts([bool; 4]);

impl RestParts {
    /// Appends its tensors to the list.
    pub(super) fn of<B: Backend>(rest: Rest<B>, tensors: &mut Vec<FloatTensor<B>>) -> Self {
        let parts = Self(rest.tensors().map(|tensor| tensor.is_some()));
        tensors.extend(rest.tensors().into_iter().flatten().cloned());
        parts
    }

    /// Puts it together again of the tensors that are next in the list.
    pub(super) fn rest<B: Backend>(
        &self,
        tensors: &mut impl Iterator<Item = FloatTensor<B>>,
    ) -> Rest<B> {
        Rest::of(self.0.map(|there| there.then(|| next(tensors))))
    }
}

/// The next tensor of the list.
pub(super) fn next<T>(tensors: &mut impl Iterator<Item = T>) -> T {
    tensors
        .next()
        .expect("an operation has the tensors that it was registered with")
}

/// Two sums of a shape, which the backend below computes in F32.
pub(super) fn two_sums(shape: Shape) -> Vec<(Shape, DType)> {
    vec![(shape.clone(), DType::F32), (shape, DType::F32)]
}
