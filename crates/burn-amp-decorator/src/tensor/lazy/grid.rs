//! Operands in the grid of a view.

use burn_amp_kernels::{
    AmpBackend,
    affine::{End, broadcast},
};
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::{Lazy, What};
use crate::{graph::Graph, thresholds::small};

impl<B: AmpBackend, G: Graph<B>> Lazy<B, G> {
    /// The shape in the grid of a small operand, if the chain can still be continued with it.
    pub(crate) fn open_for(&self, operand: &Shape) -> Option<Shape> {
        if self.chain.end != End::Identity || self.summand.is_some() || self.what == What::Squares {
            return None;
        }
        let shape = self.view.in_grid(operand)?;
        (shape.num_elements() * small() <= self.x.shape().num_elements()).then_some(shape)
    }

    /// Whether factors, broadcast to each other and to a shape, are small.
    pub(super) fn is_small(
        &self,
        factors: [&Option<FloatTensor<G::Inner>>; 3],
        shape: &Shape,
    ) -> bool {
        let shapes = factors.into_iter().flatten().map(TensorMetadata::shape);
        let all = shapes.fold(shape.clone(), |all, shape| broadcast(&all, &shape));
        all.num_elements() * small() <= self.x.shape().num_elements()
    }

    /// Whether the dimensions of a shape in the grid have the order of the view.
    pub(crate) fn is_in_order(&self, shape: &Shape) -> bool {
        self.view.permutation(shape).is_none()
    }

    /// Brings an operand that is broadcast to the view into the grid.
    pub(crate) fn factor(
        &self,
        operand: FloatTensor<G::Inner>,
        shape: &Shape,
    ) -> FloatTensor<G::Inner> {
        match self.view.permutation(shape) {
            Some(axes) => {
                let sizes: Vec<usize> = axes.iter().map(|atom| shape[*atom]).collect();
                let mut inverse = vec![0; axes.len()];
                axes.iter()
                    .enumerate()
                    .for_each(|(place, atom)| inverse[*atom] = place);
                let operand = reshaped::<G::Inner>(operand, &sizes.into());
                G::Inner::float_permute(operand, &inverse)
            }
            None => reshaped::<G::Inner>(operand, shape),
        }
    }
}

/// A tensor in another shape, which may be its own.
pub(super) fn reshaped<B: AmpBackend>(tensor: FloatTensor<B>, shape: &Shape) -> FloatTensor<B> {
    if tensor.shape() == *shape {
        tensor
    } else {
        B::float_reshape(tensor, shape.clone())
    }
}
