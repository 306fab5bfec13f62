//! What the readers of a tensor contribute to its gradient, and the passes that compute all of it.

use super::{Affine, Rest, op, reference::reshaped};
use crate::prelude::*;

/// The contribution of one reader.
#[derive(Clone, Debug)]
pub(super) enum Term<B: AmpBackend> {
    Chain(ChainTerm<B>),
    Moments(MomentsTerm<B>),
}

/// The contribution of a chain.
#[derive(Clone, Debug)]
pub(super) struct ChainTerm<B: AmpBackend> {
    /// A chain without an end has no use for the values, and then this may be another tensor of the same shape.
    pub x: FloatTensor<B>,
    pub affine: Affine<FloatTensor<B>>,
    /// The gradient of the chain.
    pub grad: FloatTensor<B>,
    /// The contribution of sums, which is computed in the same pass.
    pub rest: Rest<FloatTensor<B>>,
}

/// The contribution of sums of the values and of their squares.
#[derive(Clone, Debug)]
pub(super) struct MomentsTerm<B: AmpBackend> {
    /// The values, for a sum of squares.
    pub x: Option<FloatTensor<B>>,
    /// The shape of `x`.
    pub shape: Shape,
    pub grid: Shape,
    pub rest: Rest<FloatTensor<B>>,
}

/// Whether a tensor may be a batch of images or volumes. Convolutions write them with their channels last, where a backend that
/// fuses brings them into the order of their dimensions.
pub fn has_layout(tensor: &impl TensorMetadata) -> bool {
    tensor.shape().num_dims() >= 4
}

impl<B: AmpBackend> Term<B> {
    /// One of the tensors that it is made of.
    pub(super) fn any(&self) -> &FloatTensor<B> {
        match self {
            Self::Chain(chain) => &chain.grad,
            Self::Moments(moments) => {
                let Rest {
                    of_squares, of_sum, ..
                } = &moments.rest;
                let any = of_squares.as_ref().or(of_sum.as_ref());
                any.expect("moments have a gradient")
            }
        }
    }

    /// Computes the sum of gradients and terms in F32, in as few passes as possible: one for a chain with the moments of the
    /// same grid, and one for two gradients. Only the last pass rounds to `dtype`.
    pub(super) fn sum(
        gradients: Vec<FloatTensor<B>>,
        terms: Vec<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<B> {
        let mut chains: Vec<ChainTerm<B>> = Vec::new();
        let mut moments: Vec<MomentsTerm<B>> = Vec::new();
        for term in terms {
            match term {
                Self::Chain(chain) => chains.push(chain),
                Self::Moments(other) => {
                    match moments.iter_mut().find(|one| one.has_place_for(&other)) {
                        Some(one) => one.add(other),
                        None => moments.push(other),
                    }
                }
            }
        }
        for chain in &mut chains {
            let grid = &chain.affine.grid;
            if let Some(at) = moments.iter().position(|moments| moments.grid == *grid) {
                let moments = moments.swap_remove(at);
                chain.rest = moments.rest;
                if let Some(x) = moments.x {
                    chain.x = x;
                }
            }
        }
        let chains = chains.into_iter().map(Self::Chain);
        let moments = moments.into_iter().map(Self::Moments);
        let passes: Vec<_> = chains.chain(moments).collect();
        let plus = gradients.into_iter().reduce(plus_gradient::<B>);
        let last = passes.len().saturating_sub(1);
        let passes = passes.into_iter().enumerate();
        let sum = passes.fold(plus, |plus, (at, pass)| {
            let dtype = if at == last { dtype } else { FloatDType::F32 };
            Some(match pass {
                Self::Chain(ChainTerm {
                    x,
                    affine,
                    grad,
                    rest,
                }) => op::backward::<B>(x, affine, grad, Rest { plus, ..rest }, dtype),
                Self::Moments(moments) => moments.pass(plus, dtype),
            })
        });
        let sum = sum.expect("a node whose backward pass runs has a gradient");
        cast::<B>(sum, dtype.into())
    }
}

/// Adds two gradients in F32.
fn plus_gradient<B: AmpBackend>(sum: FloatTensor<B>, gradient: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide_dtype(sum.dtype());
    // A backend that fuses makes one kernel of all casts and sums.
    let fuses = B::fuses_elementwise() && !has_layout(&gradient);
    if fuses || gradient.dtype() == dtype {
        return B::float_add(cast::<B>(sum, dtype), cast::<B>(gradient, dtype));
    }
    let same = Affine::identity(gradient.shape());
    op::forward::<B>(gradient, same, Some(sum), dtype.into())
}

impl<B: AmpBackend> MomentsTerm<B> {
    /// Whether both can be computed in one pass.
    fn has_place_for(&self, other: &Self) -> bool {
        self.grid == other.grid && (self.x.is_none() || other.x.is_none())
    }

    fn add(&mut self, mut other: Self) {
        let of_sum = match (self.rest.of_sum.take(), other.rest.of_sum.take()) {
            (Some(one), Some(other)) => Some(B::float_add(one, other)),
            (one, other) => one.or(other),
        };
        if other.x.is_some() {
            *self = other;
        }
        self.rest.of_sum = of_sum;
    }

    fn pass(self, plus: Option<FloatTensor<B>>, dtype: FloatDType) -> FloatTensor<B> {
        let Self { shape, grid, .. } = self;
        if let Some(x) = self.x {
            let chain = Affine {
                before: self.rest.before,
                scale: self.rest.of_squares,
                after: self.rest.of_sum,
                ..Affine::identity(grid)
            };
            return op::forward::<B>(x, chain, plus, dtype);
        }
        let of_sum = self.rest.of_sum.expect("moments have a gradient");
        let dx = match plus {
            Some(plus) => B::float_add(reshaped::<B>(widen::<B>(plus), &grid), of_sum),
            None => B::float_expand(of_sum, grid),
        };
        cast::<B>(reshaped::<B>(dx, &shape), dtype.into())
    }
}
