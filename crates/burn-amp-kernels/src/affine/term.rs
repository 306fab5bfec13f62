//! What the readers of a tensor contribute to its gradient, and the passes that compute all of it.

use super::{Affine, Rest, op, reference::reshaped};
use crate::prelude::*;

/// The contribution of one reader.
#[derive(Clone, Debug)]
pub(super) enum Term<B: AmpBackend> {
    Chain(Chain<B>),
    Moments(Moments<B>),
    /// The gradient of a reader of the same values in another dtype.
    Gradient(FloatTensor<B>),
}

/// The contribution of a chain.
#[derive(Clone, Debug)]
pub(super) struct Chain<B: AmpBackend> {
    /// A chain without a ReLU has no use for the values, and then this may be another tensor of the same shape.
    pub x: FloatTensor<B>,
    pub affine: Affine<B>,
    /// The gradient of the chain.
    pub grad: FloatTensor<B>,
}

/// The contribution of sums of the values and of their squares: `(x + before) · of_squares + of_sum`.
#[derive(Clone, Debug)]
pub(super) struct Moments<B: AmpBackend> {
    /// The shape of `x`.
    pub shape: Shape,
    pub grid: Shape,
    pub squares: Option<Squares<B>>,
    /// The gradient of the sum of the values.
    pub of_sum: Option<FloatTensor<B>>,
}

#[derive(Clone, Debug)]
pub(super) struct Squares<B: AmpBackend> {
    pub x: FloatTensor<B>,
    pub before: Option<FloatTensor<B>>,
    /// Twice the gradient of the sum of the squares.
    pub factor: FloatTensor<B>,
}

/// What one pass computes: a chain, moments, or both.
type Pass<B> = (Option<Chain<B>>, Option<Moments<B>>);

/// Computes the sum of the terms and of a tensor in as few passes as possible: one for a chain with the moments of the
/// same grid, and one for two gradients. Only the last pass rounds to `dtype`.
pub(super) fn gradient<B: AmpBackend>(
    terms: Vec<Term<B>>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let mut chains = Vec::new();
    let mut gradients = Vec::new();
    let mut moments: Vec<Moments<B>> = Vec::new();
    for term in terms {
        match term {
            Term::Chain(chain) => chains.push(chain),
            Term::Gradient(gradient) => gradients.push(gradient),
            Term::Moments(other) => {
                match moments.iter_mut().find(|one| one.has_place_for(&other)) {
                    Some(one) => one.add(other),
                    None => moments.push(other),
                }
            }
        }
    }
    let plus = gradients.into_iter().fold(plus, |sum, gradient| {
        Some(match sum {
            Some(sum) => plus_gradient::<B>(sum, gradient),
            None => gradient,
        })
    });
    let mut passes: Vec<Pass<B>> = Vec::new();
    for chain in chains {
        let at = moments
            .iter()
            .position(|moments| moments.grid == chain.affine.grid);
        passes.push((Some(chain), at.map(|at| moments.swap_remove(at))));
    }
    passes.extend(moments.into_iter().map(|moments| (None, Some(moments))));
    let count = passes.len();
    let sum = passes
        .into_iter()
        .enumerate()
        .fold(plus, |plus, (at, pass)| {
            let dtype = if at + 1 == count {
                dtype
            } else {
                FloatDType::F32
            };
            match pass {
                (Some(chain), moments) => Some(chain.pass(moments, plus, dtype)),
                (None, Some(moments)) => Some(moments.pass(plus, dtype)),
                (None, None) => plus,
            }
        });
    let sum = sum.expect("a node whose backward pass runs has a gradient");
    cast::<B>(sum, dtype.into())
}

/// Adds two gradients in F32.
fn plus_gradient<B: AmpBackend>(sum: FloatTensor<B>, gradient: FloatTensor<B>) -> FloatTensor<B> {
    let dtype = wide_dtype(sum.dtype());
    // A backend that fuses makes one kernel of all casts and sums.
    if B::fuses_elementwise() || gradient.dtype() == dtype {
        return B::float_add(cast::<B>(sum, dtype), cast::<B>(gradient, dtype));
    }
    let same = Affine::identity(gradient.shape());
    op::forward::<B>(gradient, same, Some(sum), dtype.into())
}

impl<B: AmpBackend> Chain<B> {
    fn pass(
        self,
        moments: Option<Moments<B>>,
        plus: Option<FloatTensor<B>>,
        dtype: FloatDType,
    ) -> FloatTensor<B> {
        let Self {
            mut x,
            affine,
            grad,
        } = self;
        let mut rest = Rest::plus(plus);
        if let Some(moments) = moments {
            rest.of_sum = moments.of_sum;
            if let Some(squares) = moments.squares {
                x = squares.x;
                rest.before = squares.before;
                rest.of_squares = Some(squares.factor);
            }
        }
        op::backward::<B>(x, affine, grad, rest, dtype)
    }
}

impl<B: AmpBackend> Moments<B> {
    /// Whether both can be computed in one pass.
    fn has_place_for(&self, other: &Self) -> bool {
        self.grid == other.grid && (self.squares.is_none() || other.squares.is_none())
    }

    fn add(&mut self, other: Self) {
        self.squares = self.squares.take().or(other.squares);
        self.of_sum = match (self.of_sum.take(), other.of_sum) {
            (Some(one), Some(other)) => Some(B::float_add(one, other)),
            (one, other) => one.or(other),
        };
    }

    fn pass(self, plus: Option<FloatTensor<B>>, dtype: FloatDType) -> FloatTensor<B> {
        let Self {
            shape,
            grid,
            squares,
            of_sum,
        } = self;
        if let Some(Squares { x, before, factor }) = squares {
            let chain = Affine {
                before,
                scale: Some(factor),
                after: of_sum,
                ..Affine::identity(grid)
            };
            return op::forward::<B>(x, chain, plus, dtype);
        }
        let of_sum = of_sum.expect("moments have a gradient");
        let dx = match plus {
            Some(plus) => B::float_add(reshaped::<B>(widen::<B>(plus), &grid), of_sum),
            None => B::float_expand(of_sum, grid),
        };
        cast::<B>(reshaped::<B>(dx, &shape), dtype.into())
    }
}
