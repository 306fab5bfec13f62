//! What is known about a tensor besides its values and its node: its casts and its variance, which its readers share with and
//! without a graph.

use std::sync::{Arc, OnceLock};

use burn_amp_core::Precision;
use burn_amp_kernels::affine::Spread;
use burn_autodiff::Autodiff;
use burn_backend::{Backend, Shape, tensor::FloatTensor};

use super::{Origin, Stepped};
use crate::precision;

/// What is known about a tensor besides its values and its node. All clones of the tensor share it.
#[derive(Debug)]
pub struct Recorded<B: Backend> {
    /// How many ops in a row a backward pass computes again to get the values; 0 if the graph keeps them.
    pub(crate) chain: u8,
    /// The parameter of which the tensor is a view.
    pub(crate) parameter: Option<Arc<Origin>>,
    /// Whether the tensor repeats the values of a smaller one, as far as somebody watches.
    pub(crate) expanded: bool,
    /// Whether the tensor is a product of matrices, which attention scales and masks.
    pub(crate) is_product: bool,
    /// Whether the tensor is the product of rows and a weight, to which the program may add the bias.
    pub(crate) is_linear: bool,
    /// The number of the tensor in a step that is recorded; 0 if it has none.
    pub(crate) id: u64,
    /// What is known of the step that made the tensor, if an optimizer did.
    pub(crate) stepped: Option<Stepped>,
    /// Whether the uses of the tensor share its casts.
    shares: bool,
    /// The casts, once one is asked for.
    casts: OnceLock<Arc<SharedCasts<B>>>,
}

/// The copy shares the casts.
impl<B: Backend> Clone for Recorded<B> {
    fn clone(&self) -> Self {
        Self {
            casts: match self.casts() {
                Some(casts) => OnceLock::from(casts.clone()),
                None => OnceLock::new(),
            },
            parameter: self.parameter.clone(),
            ..*self
        }
    }
}

/// The casts of a tensor, and its variance, that its uses share.
#[derive(Debug)]
pub(super) struct SharedCasts<B: Backend> {
    /// The values in the low dtype that they were cast to first. Each use has a node of its own, so that the gradients
    /// of the uses are added in the tensor's own dtype.
    pub(super) low: OnceLock<(Precision, FloatTensor<B>)>,
    /// The node of the cast to F32, in which the gradients of the uses are added. Its values are those of the tensor as
    /// it is stored: each use casts them again, so that the F32 values do not outlive the use.
    pub(super) wide: OnceLock<FloatTensor<Autodiff<B>>>,
    /// The values as they are stored, in the node that adds the gradients of those uses in F32 which read them so, or in low
    /// precision.
    summed: OnceLock<FloatTensor<Autodiff<B>>>,
    /// The mean and the variance that a norm asked for.
    spread: OnceLock<(SpreadOf, Spread<FloatTensor<B>>)>,
}

/// Which sums of a tensor there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpreadOf {
    /// The shape in which the tensor is read.
    pub(crate) grid: Shape,
    /// The shape of the sums.
    pub(crate) kept: Shape,
    /// Whether they are means.
    pub(crate) mean: bool,
}

impl<B: Backend> Recorded<B> {
    /// Nothing is known, and nothing is shared.
    #[inline]
    pub const fn nothing() -> Self {
        Self {
            chain: 0,
            parameter: None,
            expanded: false,
            is_product: false,
            is_linear: false,
            id: 0,
            stepped: None,
            shares: false,
            casts: OnceLock::new(),
        }
    }

    /// A tensor whose casts will be shared by its uses, such as a parameter outside a graph: a model is evaluated on many
    /// batches.
    pub(crate) fn sharing(chain: u8) -> Self {
        Self {
            chain,
            shares: true,
            ..Self::nothing()
        }
    }

    /// Whether nothing is known, and nothing is shared.
    #[inline]
    pub(crate) const fn is_nothing(&self) -> bool {
        let Self {
            chain,
            parameter,
            expanded,
            is_product,
            is_linear: _,
            id,
            stepped,
            shares,
            casts: _,
        } = self;
        let has_flag = *expanded || *is_product || *shares;
        *chain == 0 && parameter.is_none() && !has_flag && *id == 0 && stepped.is_none()
    }

    /// Whether the tensor is nothing special but for being a product.
    pub(crate) fn is_of_values(&self) -> bool {
        self.parameter.is_none() && self.stepped.is_none()
    }

    /// The casts that the uses of the tensor share.
    pub(super) fn casts(&self) -> Option<&Arc<SharedCasts<B>>> {
        let new = || {
            Arc::new(SharedCasts {
                low: OnceLock::new(),
                wide: OnceLock::new(),
                summed: OnceLock::new(),
                spread: OnceLock::new(),
            })
        };
        self.shares.then(|| self.casts.get_or_init(new))
    }

    /// A parameter outside a graph, with its values in a low dtype.
    pub fn of_lowered(to: Precision, values: FloatTensor<B>) -> Self {
        let recorded = Self::sharing(0);
        recorded.add_low(to, values);
        recorded
    }

    /// Adds the values in a low dtype, which the op that computed the tensor has written too.
    pub(crate) fn add_low(&self, to: Precision, values: FloatTensor<B>) {
        if let Some(casts) = self.casts() {
            casts.low.get_or_init(|| (to, values));
        }
    }

    /// Returns the values in the low dtype that they have been cast to, if they have.
    pub(crate) fn lowered(&self) -> Option<(Precision, FloatTensor<B>)> {
        self.casts.get()?.low.get().cloned()
    }

    /// Returns the sums of the tensor and of the squares of what its values are off their mean, computed `by` a pass over it unless
    /// they are known. `None` if the uses share nothing, and if they share other sums.
    pub(crate) fn spread(
        &self,
        of: SpreadOf,
        by: impl FnOnce(&SpreadOf) -> Spread<FloatTensor<B>>,
    ) -> Option<Spread<FloatTensor<B>>> {
        let casts = self.casts()?;
        let (known, spread) = casts.spread.get_or_init(|| {
            let spread = by(&of);
            (of.clone(), spread)
        });
        (*known == of).then(|| spread.clone())
    }

    /// Whether other ops will read the tensor, if the uses share its casts: it `has_clones`, or something that was made of it
    /// has its casts.
    pub(crate) fn has_other_readers(&self, has_clones: bool) -> Option<bool> {
        let casts = self.casts.get();
        let has_others = has_clones || casts.is_some_and(|casts| Arc::strong_count(casts) > 1);
        self.shares.then_some(has_others)
    }

    /// Whether a node adds the gradients of several uses already.
    pub(super) fn adds_gradients(&self) -> bool {
        let casts = self.casts.get();
        casts.is_some_and(|casts| casts.summed.get().is_some())
    }

    /// Returns the node that adds the gradients of all such uses, which the first of them makes.
    pub(super) fn with_f32_gradient(
        &self,
        tensor: FloatTensor<Autodiff<B>>,
        make: impl FnOnce(FloatTensor<Autodiff<B>>) -> FloatTensor<Autodiff<B>>,
    ) -> FloatTensor<Autodiff<B>> {
        match self.casts() {
            Some(casts) => casts.summed.get_or_init(|| make(tensor)).clone(),
            None => make(tensor),
        }
    }

    /// Whether the values in the low dtype `to` are there, so that [`low`](Self::low) makes none.
    pub(crate) fn has_low(&self, to: Precision) -> bool {
        let casts = self.casts.get();
        let low = casts.and_then(|casts| casts.low.get());
        matches!(low, Some((dtype, _)) if *dtype == to)
    }

    /// Casts the tensor to a low dtype. All uses share the values.
    pub(super) fn low(&self, tensor: FloatTensor<B>, to: Precision) -> FloatTensor<B> {
        if precision::of(&tensor) == to {
            return tensor;
        }
        if let Some(parameter) = &self.parameter {
            parameter.lower(to);
        }
        let Some(casts) = self.casts() else {
            return precision::cast::<B>(tensor, to);
        };
        let (dtype, values) = casts
            .low
            .get_or_init(|| (to, precision::cast::<B>(tensor.clone(), to)));
        if *dtype == to {
            values.clone()
        } else {
            precision::cast::<B>(tensor, to)
        }
    }
}
