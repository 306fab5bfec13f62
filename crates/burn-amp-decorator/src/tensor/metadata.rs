//! What Burn asks of a tensor.

use std::fmt;

use burn_amp_kernels::AmpBackend;
use burn_backend::{DType, Shape, TensorMetadata};

use super::{AmpTensor, Recipe};
use crate::{graph::Graph, precision};

impl<B: AmpBackend, G: Graph<B>> fmt::Debug for AmpTensor<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmpTensor")
            .field("kind", &self.kind())
            .field("shape", &self.shape())
            .field("logical", &self.logical)
            .field("stored", &self.stored())
            .finish_non_exhaustive()
    }
}

impl<B: AmpBackend, G: Graph<B>> TensorMetadata for AmpTensor<B, G> {
    #[cfg(burn_0_22)]
    type Device = B::Device;

    #[cfg(burn_0_22)]
    fn device(&self) -> B::Device {
        burn_amp_kernels::names::device_of::<G::Inner>(&self.inner)
    }

    // Another tensor may have the same values in another form.
    #[cfg(burn_0_22)]
    fn can_mut(&self) -> bool {
        self.forms.is_none() && self.inner.can_mut()
    }

    fn dtype(&self) -> DType {
        precision::to_burn(self.logical)
    }

    fn shape(&self) -> Shape {
        let seen = self.recipe().and_then(Recipe::shape);
        seen.unwrap_or_else(|| self.inner.shape())
    }

    fn rank(&self) -> usize {
        let seen = self.recipe().and_then(Recipe::shape);
        seen.map_or_else(|| self.inner.rank(), |shape| shape.num_dims())
    }
}
