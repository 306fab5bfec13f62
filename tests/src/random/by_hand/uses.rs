//! Autodiff over casts by hand, in which each use of a tensor casts it.

use crate::prelude::*;
use instrumented::{Instrument, Instrumented, Value};

use super::{
    ByHand,
    call::{Call, Decided},
    float,
};

type Inner = Autodiff<ByHand>;

/// Autodiff over [`ByHand`], in which each use of a tensor in low precision, by a step or inside a layer, gives a
/// gradient in low precision: the backward pass of a cast casts back, and the gradients of the uses are added afterwards.
/// An op that autodiff composes of others casts its operands and stores its result as one op does.
pub type Uses = Instrumented<Inner, Use>;

/// The instrument of [`Uses`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Use;

impl Instrument<Inner> for Use {
    /// How the result is stored, if autodiff composes the op of others: as the policy decides for its first operand.
    type Seen = Option<Decided>;

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, Inner>>) -> Option<Decided> {
        let is_composed = matches!(op, Op::prelu | Op::softmax | Op::layer_norm);
        let mut decided = None;
        let mut operands: Vec<_> = operands.filter_map(Value::float).collect();
        let plus_bias = is_product_plus_bias(op, &operands);
        for operand in &mut operands {
            if is_composed && decided.is_none() {
                let mut call = Call::new(op);
                call.float(&operand.primitive);
                decided = Some(call.decide());
            }
            let cast = decided.as_ref().and_then(|decided| decided.casts.operands);
            let low = cast.filter(|dtype| dtype.is_low()).map(float);
            **operand = used(operand.clone(), low);
        }
        if plus_bias {
            let mut call = Call::new(Op::float_matmul);
            operands
                .iter()
                .for_each(|operand| call.float(&operand.primitive));
            decided = Some(call.decide());
        }
        decided
    }

    fn after<'a>(decided: Option<Decided>, results: impl Iterator<Item = Value<'a, Inner>>) {
        if let Some(decided) = decided {
            for result in results.filter_map(Value::float) {
                *result = stored(&decided, result.clone());
            }
        }
    }
}

/// Whether Burn 0.22 composes `linear` of a product with a weight and this sum, which burn-amp stores as the product is: that of
/// a tensor in low precision and a row in F32. A sum of other tensors, with the same shapes, may be rounded as well then.
fn is_product_plus_bias(op: Op, operands: &[&mut FloatTensor<Uses>]) -> bool {
    let [product, bias] = operands else {
        return false;
    };
    let (sizes, row) = (product.primitive.shape(), bias.primitive.shape());
    cfg!(burn_0_22)
        && op == Op::float_add
        && product.primitive.low().is_some()
        && bias.primitive.stored == Precision::F32
        && row.num_dims() == sizes.num_dims()
        && row.as_slice().last() == sizes.as_slice().last()
        && Some(&row.num_elements()) == row.as_slice().last()
}

/// What an op reads of an operand, which it may cast to a dtype in low precision.
fn used(x: FloatTensor<Uses>, cast: Option<FloatDType>) -> FloatTensor<Uses> {
    let cast = cast.filter(|_| x.primitive.logical == Precision::F32);
    match x.primitive.low().or(cast) {
        Some(low) => Inner::float_cast(Inner::float_cast(x, low), FloatDType::F32),
        None => x,
    }
}

/// The result of an op that autodiff composes, stored as the policy decides.
fn stored(decided: &Decided, mut result: FloatTensor<Uses>) -> FloatTensor<Uses> {
    if !decided.stored.is_low() || result.primitive.stored != Precision::F32 {
        return result;
    }
    let unrounded = result.primitive.values.clone();
    result = Inner::float_cast(result, float(decided.stored));
    result = Inner::float_cast(result, float(decided.logical));
    result.primitive.unrounded = decided.remembers.then_some(unrounded);
    result
}
