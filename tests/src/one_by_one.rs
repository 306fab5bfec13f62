//! An optimizer whose parameters step one after the other, in Burn's own ops.

use burn::grad_clipping::GradientClipping;

use crate::prelude::*;

/// The configuration of an optimizer without its rule, so that burn-amp does not step all parameters together.
#[derive(Clone, Debug)]
pub struct OneByOne<C>(pub C);

impl<B: Backend, C: OptimizerConfig<B>> OptimizerConfig<B> for OneByOne<C> {
    type Optimizer = C::Optimizer;

    fn simple(&self) -> Self::Optimizer {
        self.0.simple()
    }

    fn clipping(&self) -> Option<GradientClipping> {
        self.0.clipping()
    }
}
