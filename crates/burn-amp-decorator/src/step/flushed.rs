//! A look, now and then, at how much of the gradients F16 flushes to zero.

use burn_amp_core::{LossScaling, Precision};
use burn_amp_kernels::{
    AmpBackend,
    flushed::{Flushed, Look},
};

use crate::{loss_scale::Readable, policy::Context, warn};

/// One pass in this many is looked at. It reads a sample of each gradient in F16 and waits for each: even if it takes ten
/// times as long as another, that is 1 % of the time of all passes.
const EVERY: u64 = 1024;

/// The first pass that is looked at. The search for the first loss scale is over by then.
const FIRST: u64 = 128;

/// The first pass that is looked at if the loss scale does not move: nothing will lift the gradients.
const FIRST_OF_FIXED: u64 = 8;

/// The share of a gradient that is worth a warning.
///
/// A tenth of normally distributed elements is flushed when their standard deviation is four times the least number of
/// F16: the typical element that is left has two bits.
const SHARE: f64 = 0.1;

/// A look at a backward pass, if it is one of those that are looked at. Ends with the pass, and warns.
pub(super) struct Looked(Option<(Look, f32)>);

impl Looked {
    /// Begins with the backward pass that the context has counted last.
    pub(super) fn at<B: AmpBackend>(context: &'static Context<B>) -> Self {
        let pass = context.leaves.passes();
        let rule = context.loss_scaling();
        let is_fixed = !matches!(rule, LossScaling::Dynamic(_));
        let is_turn = pass % EVERY == FIRST || is_fixed && pass == FIRST_OF_FIXED;
        let is_due = is_turn && context.policy.compute() == Precision::F16;
        let scale = || match rule {
            LossScaling::NoScale => 1.0,
            LossScaling::Static(_) | LossScaling::Dynamic(_) => {
                context.scaling().host.progress().scale()
            }
        };
        Self(is_due.then(|| (Look::begin(), scale())))
    }
}

impl Drop for Looked {
    fn drop(&mut self) {
        if let Some((look, scale)) = self.0.take()
            && let Some(Flushed { share, shape }) = look.finish()
            && share >= SHARE
        {
            warn::of_flushed(share, shape.as_slice(), Readable(scale));
        }
    }
}
