//! An activation function in Burn's graph, which keeps the operand.
//!
//! A backward pass that computes an F32 result again, for an op that computes element by element, takes the slope of it soon
//! afterwards. Under Fusion the slope is taken from that result, in the same kernel: the ops that this saves cost the device nearly
//! nothing, but the host some microseconds each. A result in low precision may be computed again for a product, and its F32 values
//! would be written for the kernel behind that one.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Activation, ActivationForward, backward, tanh_backward};
use crate::prelude::*;

/// Computes an activation function in a node of its own.
pub(super) fn record<B: AmpBackend, C: CheckpointStrategy>(
    function: ActivationForward,
    x: Tracked<B, C>,
) -> Tracked<B, C> {
    let node = ActivationNode::<B> {
        activation: function.activation,
        again: ComputedAgain::of::<C>(function),
    };
    let again = node.again.clone();
    let compute_again = move |x: [FloatTensor<B>; 1]| {
        let result = B::run(function, x.into()).one();
        match &again {
            Some(again) => again.leave(result),
            None => result,
        }
    };
    let recording = Recording::<B, C, _, 1>::computed_again([&x], |_| true, compute_again);
    let result = B::run(function, [x.primitive].into()).one();
    recording.finish(result, |_| node)
}

#[derive(Clone, Debug)]
struct ActivationNode<B: AmpBackend> {
    activation: Activation,
    again: Option<ComputedAgain<B>>,
}

impl<B: AmpBackend> Node<B> for ActivationNode<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let x = pass.operand(0).expect("the operand is read");
        let grad = pass.gradient();
        let gradient = match self.again.and_then(ComputedAgain::take) {
            Some(output) => {
                let grad = cast::<B>(grad, output.dtype());
                let gradient = match self.activation {
                    Activation::Tanh => tanh_backward::<B>(output, grad),
                    Activation::Sigmoid | Activation::Gelu => B::sigmoid_backward(output, grad),
                };
                cast::<B>(gradient, x.dtype())
            }
            None => backward::<B>(x, grad, self.activation),
        };
        pass.register(0, seen::<B>(gradient));
    }
}

/// The result, from when a backward pass computes it again until it takes the slope.
#[derive(Clone, Debug)]
struct ComputedAgain<B: Backend>(Arc<Mutex<Option<FloatTensor<B>>>>);

impl<B: AmpBackend> ComputedAgain<B> {
    /// `None` if nothing is computed again, or nothing gained: the slope of GELU does not follow from its result.
    fn of<C: CheckpointStrategy>(function: ActivationForward) -> Option<Self> {
        let gains = B::fuses_elementwise() && recomputes::<C>();
        let has_slope =
            function.activation != Activation::Gelu && function.dtype == FloatDType::F32;
        (gains && has_slope).then(|| Self(Arc::default()))
    }

    fn leave(&self, output: FloatTensor<B>) -> FloatTensor<B> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(output.clone());
        output
    }

    fn take(self) -> Option<FloatTensor<B>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
