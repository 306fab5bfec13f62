//! Law: an op whose gradient divides by squares of its operands has it in F16 where the squares are out of range.

use burn_amp_tests::prelude::*;

/// Their squares are below the smallest number of F16, and above its largest.
const OPERANDS: [f32; 6] = [1e-4, -1e-4, 2.0, -2.0, 300.0, -300.0];

/// The gradient of `op` at the operands, which are the result of a product.
fn gradient<B: AutodiffBackend>(op: fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>) -> Vec<f32> {
    let x = Tensor::<B, 2>::from_data(TensorData::new(OPERANDS.to_vec(), [6, 1]), &here());
    let x = x.require_grad();
    let product = x.clone().matmul(Tensor::ones([1, 1], &here()));
    let grads = op(product.clone(), product.detach()).sum().backward();
    x.grad(&grads).unwrap().values()
}

fn same(
    op: fn(Tensor<AmpAutodiff, 2>, Tensor<AmpAutodiff, 2>) -> Tensor<AmpAutodiff, 2>,
    plain: fn(Tensor<PlainAutodiff, 2>, Tensor<PlainAutodiff, 2>) -> Tensor<PlainAutodiff, 2>,
) {
    let _policy = enter_config!(in_f16(|it| {
        it.loss_scale.rule.init = 1.0;
        it.loss_scale.rule.search = false;
    }));
    let (found, expected) = (gradient(op), gradient(plain));
    for ((x, found), expected) in OPERANDS.into_iter().zip(found).zip(expected) {
        // The operand and the gradient are rounded once each.
        let is_near = (found - expected).abs() <= 2.0 * 2f32.powi(-11) * expected.abs();
        assert!(is_near, "at {x}: {found}, in F32 {expected}");
    }
}

#[test]
fn atan2_has_a_gradient_near_zero_and_far_from_it() {
    same(|y, x| y.atan2(x), |y, x| y.atan2(x));
    same(|y, x| x.atan2(y), |y, x| x.atan2(y));
}

#[test]
fn a_quotient_has_a_gradient_near_zero_and_far_from_it() {
    same(|y, x| x / y, |y, x| x / y);
}
