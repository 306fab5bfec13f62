//! What is not finite and yet no fault of an op.

use super::*;

#[test]
fn zeros_whose_logarithm_is_a_mask_are_no_cause() {
    let w = full(1.0).require_grad();
    let mask = full(0.0).log();
    let masked = softmax(
        full(1.0).matmul(w.clone()) + mask.slice([0..1, 0..8]).exp(),
        1,
    );
    let small = masked * 1e-4;
    let expected = line!() + 1;
    let y = small.matmul(w);
    let (cause, line) = found(y * 30000.0);
    assert_eq!((&*cause.op, line), ("float_matmul", expected), "{cause}");
    assert!(matches!(cause.what, NotFinite::Gradient { .. }), "{cause}");
}

#[test]
fn data_that_is_not_finite_is_no_fault_of_an_op() {
    let w = full(1.0).require_grad();
    let (cause, _) = found(full(f32::NAN).matmul(w));
    assert_eq!(
        (&*cause.op, &cause.what),
        ("float_matmul", &NotFinite::Operand)
    );
    assert!(
        cause
            .to_string()
            .starts_with("an operand of `float_matmul`, which no op had made,")
    );
}

#[test]
fn a_mask_of_minus_infinity_is_no_cause() {
    let device = Default::default();
    let mask: Tensor<B, 2, Bool> = Tensor::tril_mask([8, 8], 0, &device);
    let w = full(1.0).require_grad();
    let scores = full(1.0)
        .matmul(w.clone())
        .mask_fill(mask, f32::NEG_INFINITY);
    let masked = softmax(scores, 1);
    let expected = line!() + 1;
    let (cause, line) = found((masked.matmul(w) + 1.0) * 65000.0);
    assert_eq!(
        (&*cause.op, line),
        ("float_mul_scalar", expected),
        "{cause}"
    );
    assert_eq!(cause.what, NotFinite::Result);
}

#[test]
fn a_finite_step_has_no_cause() {
    policy!(Finite, in_f16(Locate::Always, fixed(1.0)));
    type B = Autodiff<Amp<Flex, Finite>>;
    let device = Default::default();
    let w = Tensor::<B, 2>::full([8, 8], 0.1, &device).require_grad();
    let mask: Tensor<B, 2, Bool> = Tensor::tril_mask([8, 8], 0, &device);
    let scores = w.clone().matmul(w).mask_fill(mask, f32::NEG_INFINITY);
    assert_eq!(
        softmax(scores, 1).sum().backward().outcome(),
        Outcome::Finite
    );
    assert!(last_overflow::<B>(&device).is_none());
}
