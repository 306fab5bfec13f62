//! The ops of attention's scores, which wait for their softmax; see [`Scores`].

use burn_amp_core::Op;
use burn_amp_kernels::{AmpBackend, scalar::ScalarOp, softmax::ScaleMask};
use burn_backend::{
    Scalar, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor},
};

use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::computed,
    },
    graph::Graph,
    policy::ConfigSource,
    tensor::{AmpTensor, Nature, Scores},
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
    let is_scores = matches!(op, ScalarOp::Mul | ScalarOp::Div)
        && x.recorded.is_product
        && matches!(x.nature, Nature::Plain)
        && scalar.elem::<f32>().is_normal()
        && may_wait(call, x);
    is_scores.then(|| call.scores(x.clone(), Scores::scaled(op, scalar)))
}

/// What hides elements from a softmax waits for it.
pub(super) fn float_mask_fill<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    mask: BoolTensor<B>,
    value: Scalar,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_mask_fill);
    call.float(&tensor);
    call.scalar(value);
    let call = call.decide();
    if may_wait(&call, &tensor) {
        let shape = tensor.shape();
        let scores = match &tensor.nature {
            Nature::Plain => Scores::masked(&shape, mask.clone(), value),
            Nature::Scores(scores) => scores.and_masked(&shape, mask.clone(), value),
            _ => None,
        };
        if let Some(scores) = scores {
            return call.scores(tensor, scores);
        }
    }
    let (tensor, value) = (call.cast(tensor), call.scalar(value));
    call.result(computed!([F], call, float_mask_fill(tensor, mask, value)))
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
