//! Tensors that require a gradient themselves: the model's parameters.

use std::sync::Arc;

use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    convolution::weight_as_read,
    weight_product::{Reached, Use},
};
use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};
use parking_lot::Mutex;

use super::Origin;
#[cfg(burn_0_22)]
use crate::loss_scale::Passes;
use crate::precision;

/// A leaf of the graph: a tensor that requires a gradient itself. All clones of the tensor share it.
#[derive(Debug)]
pub struct Leaf<B: Backend> {
    origin: Arc<Origin>,
    uses: Mutex<Uses<B>>,
}

#[derive(Debug)]
struct Uses<B: Backend> {
    /// The values in the dtype that they were last cast to, until a backward pass reaches the leaf. The values of a leaf
    /// never change, so this is never stale.
    cast: Option<(Precision, FloatTensor<B>)>,
    /// The graph level of the cast for the last use; `None` if a backward pass has reached the leaf since then.
    last: Option<usize>,
    /// The passes whose outcome may be on the device, and from which the program has taken a gradient of the leaf. In Burn
    /// 0.21 the gradient carries them.
    #[cfg(burn_0_22)]
    passes: Passes<B>,
}

impl<B: Backend> Leaf<B> {
    pub(crate) fn new(origin: Arc<Origin>) -> Self {
        Self {
            origin,
            uses: Mutex::new(Uses {
                cast: None,
                last: None,
                #[cfg(burn_0_22)]
                passes: Passes::none(),
            }),
        }
    }

    pub(crate) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Returns the leaf's values in dtype `to`, cast at the first use.
    ///
    /// Sharing the values saves memory: a recurrent net uses its weights at every time step, and each use keeps its
    /// operands for the backward pass.
    pub(crate) fn cast(&self, tensor: FloatTensor<B>, to: Precision) -> FloatTensor<B>
    where
        B: AmpBackend,
    {
        let mut uses = self.uses.lock();
        match &uses.cast {
            Some((dtype, cast)) if *dtype == to => cast.clone(),
            _ => {
                self.origin.lower(to);
                let cast = as_read::<B>(precision::cast::<B>(tensor, to));
                uses.cast = Some((to, cast.clone()));
                cast
            }
        }
    }

    /// Whether the values in dtype `to` are there, so that [`cast`](Self::cast) makes none.
    pub(crate) fn has_cast(&self, to: Precision) -> bool {
        let uses = self.uses.lock();
        matches!(&uses.cast, Some((dtype, _)) if *dtype == to)
    }

    /// Returns the values in the low dtype that they were cast to last, if they are there.
    pub(crate) fn lowered(&self) -> Option<(Precision, FloatTensor<B>)> {
        let cast = self.uses.lock().cast.clone();
        cast.filter(|(dtype, _)| dtype.is_low())
    }

    /// Takes values that somebody has already cast to dtype `to`, as the step of an optimizer does on its way.
    pub(crate) fn take_cast(&self, to: Precision, values: FloatTensor<B>)
    where
        B: AmpBackend,
    {
        self.origin.lower(to);
        self.uses.lock().cast = Some((to, as_read::<B>(values)));
    }

    /// Records that the program takes a gradient that was computed in `passes`.
    #[cfg(burn_0_22)]
    pub(crate) fn give(&self, passes: &Passes<B>) {
        self.uses.lock().passes.join(passes);
    }

    /// The passes from which the program has taken a gradient, as far as their outcome may be on the device.
    #[cfg(burn_0_22)]
    pub(crate) fn passes(&self) -> Passes<B> {
        self.uses.lock().passes.clone()
    }

    /// Whether an op has read a cast of the leaf in this forward pass. Passes of other leaves, such as those of other
    /// threads, play no part: what is computed does not depend on them.
    pub(crate) fn is_in_use(&self) -> bool {
        self.uses.lock().last.is_some()
    }

    /// Records a use by a product that takes the node of the leaf in place of one of its cast. `operands` is the highest level among the
    /// product's operands.
    pub(crate) fn used_by_product(self: &Arc<Self>, operands: usize) -> Use {
        Use::new(self, self.is_in_use(), self.level(operands))
    }

    /// Returns the graph level above which this use, a cast or a product, is placed: at least `operands`, the highest level
    /// among the op's operands, and above the leaf's previous use in this forward pass.
    ///
    /// The *level* of a node is its distance from the leaves. A backward pass runs level by level from the top. If all
    /// casts were directly above the leaf, they would run last, and the gradients of all uses would stay in memory
    /// until then. A cast directly below the op that uses it, and above the previous cast, runs right after the op, and
    /// its gradient is added to the leaf's at once.
    pub(crate) fn level(&self, operands: usize) -> usize {
        /// The highest level that is asked for: a backward pass allocates a list for every level of its graph.
        const HIGHEST: usize = 4096;

        let mut uses = self.uses.lock();
        let above_the_last = match uses.last {
            Some(level) if level < HIGHEST => level + 1,
            _ => 0,
        };
        let level = operands.max(above_the_last);
        uses.last = Some(level);
        level
    }
}

impl<B: Backend> Reached for Leaf<B> {
    /// Ends the forward pass: forgets the cast values, which graphs hold for the uses that are left, and where the last use is.
    fn reached(&self) {
        let mut uses = self.uses.lock();
        uses.cast = None;
        uses.last = None;
    }
}

/// The values as their readers read them: a tensor of four dimensions is the weight of a convolution.
fn as_read<B: AmpBackend>(values: FloatTensor<B>) -> FloatTensor<B> {
    match values.rank() {
        4 => weight_as_read::<B>(values),
        _ => values,
    }
}
