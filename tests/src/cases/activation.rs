//! The cases of `ActivationOps`.

use crate::prelude::*;

use super::{Case, Operand};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    let x = || Operand::signed(0, [3, 5]);
    let y = || Operand::signed(1, [3, 5]);

    Some(match op {
        Op::leaky_relu => Case::with_scalar(x(), 0.25, B::leaky_relu),
        Op::relu => Case::unary(x(), B::relu),
        Op::relu_backward => Case::binary([x(), y()], B::relu_backward),
        Op::gelu => Case::unary(x(), B::gelu),
        Op::gelu_backward => Case::binary([x(), y()], B::gelu_backward),
        Op::prelu => Case::binary([x(), Operand::signed(1, [1, 5])], B::prelu),
        Op::sigmoid => Case::unary(x(), B::sigmoid),
        Op::sigmoid_backward => Case::binary([Operand::unit(0, [3, 5]), y()], B::sigmoid_backward),
        Op::hard_sigmoid => Case::float([x()], |[x], to| {
            B::hard_sigmoid(x, to.scalar(0.25), to.scalar(0.5))
        }),
        Op::log_sigmoid => Case::unary(x(), B::log_sigmoid),
        Op::log_sigmoid_backward => Case::binary([x(), y()], B::log_sigmoid_backward),
        Op::softmax => Case::along(x(), B::softmax),
        Op::log_softmax => Case::along(x(), B::log_softmax),
        Op::softmin => Case::along(x(), B::softmin),
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}
