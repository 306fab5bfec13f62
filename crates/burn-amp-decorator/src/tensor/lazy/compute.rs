//! What the readers of a chain get.

use burn_amp_core::Precision;
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    affine::{End, MomentOf, SMALL, Spread},
};
use burn_backend::{Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::{Lazy, What, grid::reshaped};
use crate::{
    graph::{Graph, SpreadOf},
    precision,
};

impl<B: AmpBackend, G: Graph<B>> Lazy<B, G> {
    /// The sum or the mean over some of the dimensions, which become 1, in F32, and the shape that they are seen in. `None` if it must
    /// be computed from the values.
    pub(crate) fn moment(
        &self,
        is_reduced: impl Fn(usize) -> bool,
        mean: bool,
    ) -> Option<(FloatTensor<G::Inner>, Shape)> {
        let kept = self.view.reduced(&is_reduced);
        let squared = self.what == What::Squares;
        let chain = &self.chain;
        if self.summand.is_some() {
            return None;
        }
        let is_plain = chain.factors().iter().all(Option::is_none) && chain.end == End::Identity;
        let is_constant = |before: &FloatTensor<G::Inner>| {
            let sizes = before.shape();
            let sizes = sizes.as_slice().iter().zip(kept.as_slice());
            sizes
                .into_iter()
                .all(|(size, kept)| *size == 1 || kept == size)
        };
        if !(squared && chain.before.as_ref().is_none_or(is_constant) || is_plain) {
            return None;
        }
        let moment = MomentOf {
            grid: self.view.grid(),
            before: chain.before.clone(),
            kept: kept.clone(),
            squared,
            mean,
        };
        // A mean is often followed by a variance. The mean of the squares alone is that of an RMS norm.
        let known = (!squared || moment.before.is_some())
            .then(|| self.spread(&kept, mean))
            .flatten();
        let moment = kernels::affine::moment::<G::Inner>(self.with_f32_gradient(), moment, known);
        let sizes = self.shape();
        let sizes = sizes.as_slice().iter().enumerate();
        let shape: Vec<usize> = sizes
            .map(|(dim, size)| if is_reduced(dim) { 1 } else { *size })
            .collect();
        Some((self.in_order(moment, &kept), shape.into()))
    }

    /// The sum of the low tensor and that of the squares of what it is off the mean, or the means of both, from one pass for all its
    /// readers. `None` if they are not small beside it.
    fn spread(&self, kept: &Shape, mean: bool) -> Option<Spread<FloatTensor<G::Inner>>> {
        let elements = self.x.shape().num_elements();
        if kept.num_elements() * SMALL > elements {
            return None;
        }
        let of = SpreadOf {
            grid: self.view.grid(),
            kept: kept.clone(),
            mean,
        };
        let spread = self.recorded.spread(of, |SpreadOf { grid, kept, mean }| {
            let x = G::values(&self.x);
            kernels::affine::spread::<B>(x, grid.clone(), kept.clone(), *mean)
        });
        spread.map(|Spread { sum, of_squares }| Spread {
            sum: G::constant(sum),
            of_squares: G::constant(of_squares),
        })
    }

    /// The values of a view, in the dtype of the low tensor.
    pub(in crate::tensor) fn viewed(&self) -> FloatTensor<G::Inner> {
        self.in_view(self.x.clone(), &self.view.grid(), &self.shape())
    }

    /// Whether the values in low precision are those in F32, cast.
    pub(in crate::tensor) fn is_computed_in_f32(&self) -> bool {
        self.what == What::Squares || self.is_sum()
    }

    /// The values of a chain in low precision, as a product reads them.
    pub(crate) fn in_low(&self, dtype: Precision) -> FloatTensor<G::Inner> {
        self.computed::<G::Inner>(dtype)
    }

    /// The values of a chain in F32, which a graph computes again in the backward pass.
    pub(in crate::tensor) fn in_f32(&self) -> FloatTensor<G::Inner> {
        match self.what {
            What::Squares => {
                let values = self.widened().in_f32();
                G::Recomputed::float_mul(values.clone(), values)
            }
            // To compute a sum again, the graph would keep what was added.
            _ if self.is_sum() => self.computed::<G::Inner>(Precision::F32),
            What::View | What::Values => self.computed::<G::Recomputed>(Precision::F32),
        }
    }

    /// Computes the chain in a dtype; a graph records it on `I`.
    fn computed<I>(&self, dtype: Precision) -> FloatTensor<G::Inner>
    where
        I: AmpBackend<FloatTensorPrimitive = FloatTensor<G::Inner>>,
    {
        let factors = self.chain.factors().map(|factor| factor.cloned());
        let values = kernels::affine::forward::<I>(
            self.with_f32_gradient(),
            self.chain.with_factors(factors),
            self.summand.clone(),
            precision::to_float(dtype),
        );
        self.in_view(values, &self.view.grid(), &self.shape())
    }

    /// Brings a tensor with the elements of the `grid` into the order and the `shape` of the view.
    fn in_view(
        &self,
        tensor: FloatTensor<G::Inner>,
        grid: &Shape,
        shape: &Shape,
    ) -> FloatTensor<G::Inner> {
        reshaped::<G::Inner>(self.in_order(tensor, grid), shape)
    }

    /// Brings a tensor with the elements of the `grid` into the order of the view.
    fn in_order(&self, tensor: FloatTensor<G::Inner>, grid: &Shape) -> FloatTensor<G::Inner> {
        match self.view.permutation(grid) {
            Some(axes) => G::Inner::float_permute(reshaped::<G::Inner>(tensor, grid), &axes),
            None => tensor,
        }
    }

    /// `x`, in a node that adds its gradients in F32.
    fn with_f32_gradient(&self) -> FloatTensor<G::Inner> {
        G::with_f32_gradient(self.x.clone(), &self.recorded)
    }
}
