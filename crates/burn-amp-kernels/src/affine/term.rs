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
    /// A chain without a ReLU has no use for the values, and then this may be another tensor of the same shape.
    pub x: FloatTensor<B>,
    pub affine: Affine<FloatTensor<B>>,
    /// The gradient of the chain.
    pub grad: FloatTensor<B>,
}

/// The contribution of sums of the values and of their squares: `(x + before) · of_squares + of_sum`.
#[derive(Clone, Debug)]
pub(super) struct MomentsTerm<B: AmpBackend> {
    /// The shape of `x`.
    pub shape: Shape,
    pub grid: Shape,
    pub squares: Option<SquaresTerm<B>>,
    /// The gradient of the sum of the values.
    pub of_sum: Option<FloatTensor<B>>,
}

#[derive(Clone, Debug)]
pub(super) struct SquaresTerm<B: AmpBackend> {
    pub x: FloatTensor<B>,
    pub before: Option<FloatTensor<B>>,
    /// Twice the gradient of the sum of the squares.
    pub factor: FloatTensor<B>,
}

/// What one pass computes: a chain, moments, or both.
type Sweep<B> = (Option<ChainTerm<B>>, Option<MomentsTerm<B>>);

impl<B: AmpBackend> Term<B> {
    /// Computes the sum of gradients and terms in F32, in as few passes as possible: one for a chain with the moments of the
    /// same grid, and one for two gradients. Only the last pass rounds to `dtype`.
    pub(super) fn sum(
        gradients: Vec<FloatTensor<B>>,
        terms: Vec<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<B> {
        let mut passes: Vec<Sweep<B>> = Vec::new();
        let mut moments: Vec<MomentsTerm<B>> = Vec::new();
        for term in terms {
            match term {
                Self::Chain(chain) => passes.push((Some(chain), None)),
                Self::Moments(other) => {
                    match moments.iter_mut().find(|one| one.has_place_for(&other)) {
                        Some(one) => one.add(other),
                        None => moments.push(other),
                    }
                }
            }
        }
        for (chain, own) in &mut passes {
            let grid = chain.as_ref().map(|chain| &chain.affine.grid);
            let at = moments
                .iter()
                .position(|moments| Some(&moments.grid) == grid);
            *own = at.map(|at| moments.swap_remove(at));
        }
        passes.extend(moments.into_iter().map(|moments| (None, Some(moments))));
        let plus = gradients.into_iter().reduce(plus_gradient::<B>);
        let last = passes.len().saturating_sub(1);
        let passes = passes.into_iter().enumerate();
        let sum = passes.fold(plus, |plus, (at, pass)| {
            let dtype = if at == last { dtype } else { FloatDType::F32 };
            match pass {
                (Some(chain), moments) => Some(chain.pass(moments, plus, dtype)),
                (None, Some(moments)) => Some(moments.pass(plus, dtype)),
                (None, None) => plus,
            }
        });
        let sum = sum.expect("a node whose backward pass runs has a gradient");
        cast::<B>(sum, dtype.into())
    }
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

impl<B: AmpBackend> ChainTerm<B> {
    fn pass(
        self,
        moments: Option<MomentsTerm<B>>,
        plus: Option<FloatTensor<B>>,
        dtype: FloatDType,
    ) -> FloatTensor<B> {
        let mut x = self.x;
        let mut rest = Rest::plus(plus);
        if let Some(moments) = moments {
            rest.of_sum = moments.of_sum;
            if let Some(squares) = moments.squares {
                x = squares.x;
                rest.before = squares.before;
                rest.of_squares = Some(squares.factor);
            }
        }
        op::backward::<B>(x, self.affine, self.grad, rest, dtype)
    }
}

impl<B: AmpBackend> MomentsTerm<B> {
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
        if let Some(SquaresTerm { x, before, factor }) = squares {
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
