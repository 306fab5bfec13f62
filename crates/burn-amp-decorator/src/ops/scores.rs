//! The ops of attention's scores, which wait for their softmax; see [`Scores`].

use burn_amp_kernels::{AmpBackend, scalar::ScalarOp, softmax::ScaleMask};
use burn_backend::{
    Scalar, TensorMetadata,
    tensor::{BoolTensor, FloatTensor},
};

use crate::{
    cast::call::Decided,
    graph::Graph,
    tensor::{AmpTensor, Recipe, Scores},
    thresholds::worth_waiting,
};

/// Whether a call may leave its result to a reader: it keeps the low precision of a tensor that is large enough.
fn may_wait<B: AmpBackend, G: Graph<B>>(call: &Decided<B>, x: &AmpTensor<B, G>) -> bool {
    call.keeps() && x.stored().is_low() && x.shape().num_elements() >= worth_waiting()
}

/// The product of matrices `x` times or divided by a number, not computed; `None` if `x` is something else.
pub(super) fn scaled<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    op: ScalarOp,
    scalar: Scalar,
) -> Option<AmpTensor<B, G>> {
    let is_scores = x.recorded.is_product
        && x.is_plain()
        && scalar.elem::<f32>().is_normal()
        && may_wait(call, x);
    is_scores.then(|| call.scores(x.clone(), Scores::scaled(op, scalar)))
}

/// What hides elements from a softmax waits for it.
pub(super) fn masked<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: &AmpTensor<B, G>,
    mask: &BoolTensor<B>,
    value: Scalar,
) -> Option<AmpTensor<B, G>> {
    if !may_wait(call, x) {
        return None;
    }
    let scores = match x.recipe() {
        None if x.is_plain() => Scores::masked(&x.shape(), mask.clone(), value),
        Some(Recipe::Scores(scores)) => scores.and_masked(&x.shape(), mask.clone(), value),
        _ => None,
    };
    Some(call.scores(x.clone(), scores?))
}

/// The operand of a softmax: that of the scores, and what is still to be done with it.
pub(super) fn operand<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: AmpTensor<B, G>,
) -> (FloatTensor<G::Inner>, ScaleMask<BoolTensor<B>>) {
    match x.unscored() {
        Some((product, before)) => (call.behind::<G>(product), before),
        None => (call.as_stored(x), ScaleMask::none()),
    }
}
