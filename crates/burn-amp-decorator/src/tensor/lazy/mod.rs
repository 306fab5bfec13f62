//! Chains of sums and products with small factors on a low tensor, which are not computed until someone reads them.
//!
//! Burn composes a batch norm of ten ops: means over swapped and reshaped views, `x - mean`, its square, a division, a
//! product and a sum, and an activation function behind them. Computed one by one in F32 each of them writes a tensor twice
//! the size of `x`. So an F32 result that is a chain `(x + before) · scale · rescale + after` with factors that are small beside `x`
//! stays a recipe. Its reader decides what is computed: an op in low precision gets it in low precision, any other one in
//! F32, each by one op ([`burn_amp_kernels::affine`]); a mean or a sum of it, or of its square, reads `x` itself. The
//! addition of a residual block and its ReLU are computed in the same op.
//!
//! The values are those of the ops computed in F32 one by one, up to the rounding of a few F32 operations, and each
//! element is rounded to low precision at most once, and twice in a norm of images that is added to another one. Additions
//! before the first factor stay there: `(x - mean) / std` as `x / std - mean / std` would lose digits where the mean is
//! large.

mod compute;
mod grid;

use std::sync::{Arc, OnceLock};

use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    affine::{Affine, End, has_layout},
};
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use self::grid::reshaped;
use super::{AmpTensor, kind::Kind, view::View};
use crate::{
    graph::{Graph, Recorded},
    precision,
    thresholds::worth_waiting,
};

/// A chain that has not been computed.
pub(crate) struct Lazy<B: AmpBackend, G: Graph<B>> {
    /// The low tensor.
    x: FloatTensor<G::Inner>,
    recorded: Recorded<B>,
    view: View,
    /// The factors in the grid of the view.
    chain: Affine<FloatTensor<G::Inner>>,
    /// A tensor of the shape of `x` that is added to the chain. Only a ReLU may follow.
    summand: Option<FloatTensor<G::Inner>>,
    what: What,
    /// Shared by a chain and the functions of it, so that a sigmoid is known as its own on any backend.
    argument: Arc<()>,
    recorded_view: OnceLock<Recorded<B>>,
}

/// What a chain computes from its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Another view of it: a tensor that is stored in low precision.
    View,
    /// A tensor that is stored in F32.
    Values,
    /// The squares of such a tensor, which only sums and means may read.
    Squares,
}

impl<B: AmpBackend, G: Graph<B>> Lazy<B, G> {
    /// Makes the chain without factors of a low tensor; `None` if the tensor is something else, or too small to be worth it.
    pub(crate) fn new(tensor: &AmpTensor<B, G>) -> Option<Self> {
        let is_worth_it = tensor.is_plain()
            && tensor.stored().is_low()
            && tensor.shape().num_elements() >= worth_waiting();
        is_worth_it.then(|| {
            let view = View::of(&tensor.shape());
            Self {
                chain: Affine::identity(view.grid()),
                x: tensor.inner.clone(),
                recorded: tensor.recorded.clone(),
                view,
                summand: None,
                what: What::View,
                argument: Arc::new(()),
                recorded_view: OnceLock::new(),
            }
        })
    }

    /// The chain with other factors, of which nothing is computed yet.
    fn with(&self, view: View, chain: Affine<FloatTensor<G::Inner>>, what: What) -> Self {
        Self {
            x: self.x.clone(),
            recorded: self.recorded.clone(),
            view,
            chain,
            summand: None,
            what,
            argument: Arc::new(()),
            recorded_view: OnceLock::new(),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.view.shape()
    }

    /// The low tensor.
    pub(super) fn source(&self) -> &FloatTensor<G::Inner> {
        &self.x
    }

    pub(super) fn kind(&self) -> Kind {
        match self.what {
            What::View => Kind::View,
            What::Values if self.is_sum() => Kind::Sum,
            What::Values => Kind::Chain,
            What::Squares => Kind::Squares,
        }
    }

    /// Whether this is a view of a tensor that is stored in low precision, and not a result in F32.
    pub(crate) fn is_view(&self) -> bool {
        self.what == What::View
    }

    /// Whether the chain is in a graph.
    pub(crate) fn is_tracked(&self) -> bool {
        let factors = self.chain.factors().into_iter().flatten();
        let mut operands = factors.chain(&self.summand).chain([&self.x]);
        operands.any(G::is_tracked)
    }

    /// What a graph knows about the view, as its readers share it.
    pub(super) fn recorded(&self) -> Recorded<B> {
        self.recorded_view
            .get_or_init(|| Recorded::sharing(0))
            .clone()
    }

    /// The values in F32.
    pub(crate) fn widened(&self) -> Self {
        self.with(self.view.clone(), self.chain.clone(), What::Values)
    }

    /// `None` if something was added that is as large as the tensor.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Option<Self> {
        (self.summand.is_none())
            .then(|| self.with(self.view.permuted(axes), self.chain.clone(), self.what))
    }

    /// `None` if the new dimensions are not made of the old ones, or if the factors would not be small.
    pub(crate) fn reshaped(&self, shape: &Shape) -> Option<Self> {
        if self.summand.is_some() {
            return None;
        }
        let (view, splits) = self.view.reshaped(shape)?;
        let factors = self.chain.factors().map(|factor| {
            factor.map(|factor| {
                let sizes = factor.shape().as_slice().to_vec();
                let sizes = splits.iter().fold(sizes, |sizes, split| split.of(&sizes));
                reshaped::<G::Inner>(factor.clone(), &sizes.into())
            })
        });
        let mut chain = self.chain.with_factors(factors);
        chain.grid = view.grid();
        Some(self.with(view, chain, self.what))
    }

    /// Adds a small F32 tensor, in the grid as those of the other operations.
    pub(crate) fn plus(&self, term: FloatTensor<G::Inner>) -> Option<Self> {
        let add = |old: Option<_>, term| match old {
            Some(old) => G::Inner::float_add(old, term),
            None => term,
        };
        self.add(term, add)
    }

    /// Subtracts a small F32 tensor.
    pub(crate) fn minus(&self, term: FloatTensor<G::Inner>) -> Option<Self> {
        let subtract = |old: Option<_>, term| match old {
            Some(old) => G::Inner::float_sub(old, term),
            None => G::Inner::float_neg(term),
        };
        self.add(term, subtract)
    }

    fn add(
        &self,
        term: FloatTensor<G::Inner>,
        combine: impl FnOnce(
            Option<FloatTensor<G::Inner>>,
            FloatTensor<G::Inner>,
        ) -> FloatTensor<G::Inner>,
    ) -> Option<Self> {
        let mut chain = self.chain.clone();
        let is_scaled = chain.scale.is_some() || chain.rescale.is_some();
        let group = if chain.rescale.is_some() {
            [&self.chain.rescale, &None, &self.chain.after]
        } else {
            [&self.chain.before, &self.chain.scale, &self.chain.after]
        };
        if !self.is_small(group, &term.shape()) {
            return None;
        }
        let place = if is_scaled {
            &mut chain.after
        } else {
            &mut chain.before
        };
        *place = Some(combine(place.take(), term));
        Some(self.with(self.view.clone(), chain, What::Values))
    }

    /// Divides by a small F32 tensor. A quotient is not a product with the reciprocal, so only the first factor may
    /// divide.
    pub(crate) fn divided_by(&self, divisor: FloatTensor<G::Inner>) -> Option<Self> {
        let mut chain = self.chain.clone();
        let is_first = chain.scale.is_none() && chain.rescale.is_none() && chain.after.is_none();
        if !is_first || !self.is_small([&chain.before, &None, &None], &divisor.shape()) {
            return None;
        }
        chain.scale = Some(divisor);
        chain.divides = true;
        Some(self.with(self.view.clone(), chain, What::Values))
    }

    /// Multiplies by a small F32 tensor.
    pub(crate) fn times(&self, factor: FloatTensor<G::Inner>) -> Option<Self> {
        let multiply = |old: Option<_>, factor| match old {
            Some(old) => G::Inner::float_mul(old, factor),
            None => factor,
        };
        let shape = factor.shape();
        let mut chain = self.chain.clone();
        let first = [&self.chain.before, &self.chain.scale, &self.chain.after];
        let second = [&self.chain.rescale, &None, &self.chain.after];
        let has_place = chain.rescale.is_none() && !chain.divides;
        let place = if has_place && self.is_small(first, &shape) {
            &mut chain.scale
        } else if (chain.rescale.is_some() || chain.after.is_none())
            && self.is_small(second, &shape)
        {
            &mut chain.rescale
        } else {
            return None;
        };
        *place = Some(multiply(place.take(), factor.clone()));
        if let Some(after) = chain.after.take() {
            chain.after = Some(multiply(Some(after), factor));
        }
        Some(self.with(self.view.clone(), chain, What::Values))
    }

    /// The squares, if nothing but a sum stands before them.
    pub(crate) fn squared(&self) -> Option<Self> {
        let chain = &self.chain;
        let is_sum = chain.scale.is_none() && chain.rescale.is_none() && chain.after.is_none();
        (is_sum
            && chain.end == End::Identity
            && self.summand.is_none()
            && self.what != What::Squares)
            .then(|| self.with(self.view.clone(), chain.clone(), What::Squares))
    }

    /// Whether a tensor of a shape may be added to the chain, such as the identity of a residual block.
    pub(crate) fn has_place_for_summand(&self, shape: &Shape) -> bool {
        let is_open = self.is_open() && self.summand.is_none();
        let is_in_order = self.view.permutation(&self.view.grid()).is_none();
        is_open && is_in_order && *shape == self.x.shape() && *shape == self.shape()
    }

    /// Adds a tensor that there is a place for.
    pub(crate) fn with_summand(&self, summand: FloatTensor<G::Inner>) -> Self {
        let mut sum = self.with(self.view.clone(), self.chain.clone(), What::Values);
        sum.summand = Some(summand);
        sum
    }

    /// The dtype in which a ReLU of images or of a residual block is stored: that of the low tensor. Convolutions and pools read it so,
    /// and the next block does, too.
    pub(crate) fn rounds_to(&self) -> Option<Precision> {
        let rounds = self.chain.end == End::Relu && (self.is_sum() || self.are_images());
        rounds.then(|| precision::of(&self.x))
    }

    /// Whether the chain is of what may be images, in their shape.
    pub(crate) fn are_images(&self) -> bool {
        has_layout(&self.x) && self.shape() == self.x.shape()
    }

    /// Whether the chain ends with an added tensor.
    pub(crate) fn is_sum(&self) -> bool {
        self.summand.is_some()
    }

    /// Whether the chain stands for values of which no function has been taken.
    fn is_open(&self) -> bool {
        self.what == What::Values && self.chain.end == End::Identity
    }

    /// A function of a chain. Of its sum with a tensor that is as large, only the ReLU can wait.
    pub(crate) fn ended(&self, end: End) -> Option<Self> {
        (self.is_open() && (self.summand.is_none() || end == End::Relu)).then(|| {
            let mut chain = self.chain.clone();
            chain.end = end;
            let mut ended = self.with(self.view.clone(), chain, What::Values);
            ended.summand = self.summand.clone();
            ended.argument = self.argument.clone();
            ended
        })
    }

    /// The product of a chain and its own sigmoid, its SiLU.
    pub(crate) fn gated_by(&self, gate: &Self) -> Option<Self> {
        let is_own = gate.chain.end == End::Sigmoid && Arc::ptr_eq(&self.argument, &gate.argument);
        is_own.then(|| self.ended(End::Silu)).flatten()
    }
}
