//! How the results of a call are wrapped.

use burn_amp_core::{Op, Precision};
use burn_amp_kernels::{AmpBackend, made};
use burn_backend::{
    Shape, TensorPrimitive,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use super::Decided;
use crate::{
    backend::Amp,
    graph::Graph,
    policy::ConfigSource,
    precision,
    tensor::{AmpTensor, Lazy, Parts, Recipe, Role, Saturating, Scores},
};

impl<B: AmpBackend> Decided<B> {
    /// Wraps a chain that has not been computed.
    pub(crate) fn lazy<G: Graph<B>>(&self, chain: Lazy<B, G>) -> AmpTensor<B, G> {
        let length = if chain.is_view() { 0 } else { 1 };
        self.uncomputed(AmpTensor::of_chain(chain, self.context()), length)
    }

    /// Wraps scores of `x`, or of the tensor of which `x` is the scores, that have not been computed.
    pub(crate) fn scores<G: Graph<B>>(
        &self,
        x: AmpTensor<B, G>,
        scores: Scores<B>,
    ) -> AmpTensor<B, G> {
        self.uncomputed(x.with_recipe(Recipe::Scores(scores)), 0)
    }

    /// Wraps a tensor that stays stored as it is, and that the program sees in another shape.
    pub(crate) fn reshaped<G: Graph<B>>(
        &self,
        x: AmpTensor<B, G>,
        shape: Shape,
    ) -> AmpTensor<B, G> {
        let length = x.recorded.chain;
        self.uncomputed(x.seen_in(shape), length)
    }

    /// Makes a tensor that waits the result. A backward pass computes it again in `length` ops.
    fn uncomputed<G: Graph<B>>(&self, mut result: AmpTensor<B, G>, length: u8) -> AmpTensor<B, G> {
        let logical = self.casts.logical.unwrap_or_else(|| result.stored());
        let facts = result.facts_mut();
        facts.logical = logical;
        facts.recorded = AmpTensor::<B, G>::recorded(self.context(), length);
        facts.recorded.parameter = self.call.view_of.clone();
        self.call.watch.uncomputed(&result);
        result
    }

    /// Runs an op whose backward pass adds gradients onto the elements of `tensor`. They are added in F32 if the policy lowers
    /// anything, and otherwise as on the plain backend.
    pub(crate) fn summed<G: Graph<B>>(
        &self,
        tensor: FloatTensor<G::Inner>,
        op: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
    ) -> AmpTensor<B, G> {
        self.result(if self.lowers {
            G::sum_gradient_in_f32(tensor, op)
        } else {
            op(tensor)
        })
    }

    /// Wraps a result of the inner backend, cast to the dtype that the policy gives it.
    #[inline]
    pub(crate) fn result<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        self.stored(match self.casts.results {
            Some(to) => {
                self.call.watch.cast::<B, G>(&result, to, false, || false);
                precision::cast::<G::Inner>(result, to)
            }
            None => result,
        })
    }

    /// The role of a result: an activation, or a gradient.
    #[inline]
    fn role(&self) -> Role<B> {
        if self.call.operands.exact {
            Role::Gradient(self.call.passes.clone())
        } else {
            Role::Activation
        }
    }

    /// Wraps a result that has its storage dtype already.
    pub(crate) fn stored<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let context = self.context();
        let logical = self.casts.logical;
        let is_recomputed = self.recomputes && G::is_recomputed(&result);
        let result = self.call.watch.result::<B, G>(result);
        let chain = if is_recomputed {
            self.call.chain.next()
        } else {
            0
        };
        let mut recorded = AmpTensor::<B, G>::recorded(context, chain);
        recorded.parameter = self.call.view_of.clone();
        recorded.expanded =
            self.call.watch.is_on() && self.call.callee.op() == Some(Op::float_expand);
        recorded.is_product = self.call.callee.op() == Some(Op::float_matmul);
        AmpTensor::of(Parts {
            recorded,
            logical: logical.unwrap_or_else(|| precision::of(&result)),
            values: result,
            context,
            role: self.role(),
        })
    }

    /// Wraps a result that is stored in F32 whatever dtype it was computed in, because it will be accumulated.
    #[inline]
    pub(crate) fn wide<G: Graph<B>>(&self, result: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let wide = precision::of(&result).join(Precision::F32);
        self.result(precision::cast::<G::Inner>(result, wide))
    }

    /// Returns an int result as it is.
    #[inline]
    pub(crate) fn int_result<G: Graph<B>>(&self, result: IntTensor<B>) -> IntTensor<B> {
        self.call.watch.made::<B, G>(|| made::int::<B>(&result));
        result
    }

    /// Returns a bool result as it is.
    #[inline]
    pub(crate) fn bool_result<G: Graph<B>>(&self, result: BoolTensor<B>) -> BoolTensor<B> {
        self.call.watch.made::<B, G>(|| made::bool::<B>(&result));
        result
    }

    /// Wraps a result that is a float or a quantized tensor.
    pub(crate) fn primitive<P: ConfigSource, G: Graph<B>>(
        &self,
        result: TensorPrimitive<G::Inner>,
    ) -> TensorPrimitive<Amp<B, P, G>> {
        match result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(self.result(tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    }

    /// Wraps the result of a saturating op of `x`, which remembers `x` if both are stored in low precision.
    ///
    /// Under class `Low` it does not: there, the configuration asks for low precision.
    pub(crate) fn saturating<G: Graph<B>>(
        &self,
        op: Saturating<BoolTensor<B>>,
        x: FloatTensor<G::Inner>,
        result: AmpTensor<B, G>,
    ) -> AmpTensor<B, G> {
        let is_rounded = result.stored().is_low()
            && precision::of(&x).is_low()
            && !self.casts.operands.is_some_and(Precision::is_low)
            && self.lowers
            && result.is_plain();
        if is_rounded {
            result.with_recipe(Recipe::Saturated(op, x))
        } else {
            result
        }
    }
}
