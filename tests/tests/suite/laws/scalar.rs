//! Law: an op with a scalar operand that the storage dtype would lose runs in F32; one that the dtype would round acts
//! in F32, and its result is rounded once.

use burn_amp_tests::prelude::*;

use super::drive::*;

/// Scalars that become 0, ±inf or ±1 in a low dtype.
fn lost_in(compute: Precision) -> [f64; 3] {
    match compute {
        Precision::F16 => [1e-8, -1e9, 0.9999],
        Precision::BF16 => [1e-42, -3.4e38, 0.999],
        Precision::F64 | Precision::F32 | Precision::Flex32 => {
            unreachable!("the laws are about low policies")
        }
    }
}

fn is_guarded(op: Op, class: Class) -> bool {
    class == Class::Keep && op.shape().contains("Scalar")
}

fn runs_in_f32() {
    law(|op, class| {
        if !is_guarded(op, class) {
            return;
        }
        for scalar in lost_in(precision()) {
            let outputs = read(run_amp(op, |_| true, Some(scalar)).0);
            let in_f32 = read(run_plain(op, DType::F32, Some(scalar)));
            for (output, in_f32) in outputs.iter().zip(&in_f32) {
                assert_eq!(output.stored, in_f32.stored, "scalar {scalar}");
                assert_eq!(output.bits(), in_f32.bits(), "scalar {scalar}");
            }
        }
    });
}

#[test]
fn a_scalar_that_the_dtype_would_lose_makes_the_op_run_in_f32() {
    for_each_low_policy!(runs_in_f32);
}

fn stays_low() {
    let compute = burn_dtype(precision());
    law(|op, class| {
        if !is_guarded(op, class) {
            return;
        }
        let (outputs, casts) = run_amp(op, |_| true, Some(0.5));
        assert_eq!(casts, []);
        for output in read(outputs) {
            assert!(output.stored.is_none_or(|stored| stored == compute));
        }
    });
}

#[test]
fn a_scalar_that_the_dtype_holds_leaves_the_op_low() {
    for_each_low_policy!(stays_low);
}

fn rounds_once() {
    let compute = precision();
    law(|op, class| {
        if !is_guarded(op, class) {
            return;
        }
        for scalar in [0.3, 1.1, -0.7] {
            assert_ne!(compute.round(scalar), scalar);
            let outputs = read(run_amp(op, |_| true, Some(scalar)).0);
            let in_f32 = read(run_plain(op, DType::F32, Some(scalar)));
            for (output, mut in_f32) in outputs.into_iter().zip(in_f32) {
                if output.stored.is_some() {
                    assert_eq!(output.stored, Some(burn_dtype(compute)), "scalar {scalar}");
                    in_f32
                        .values
                        .iter_mut()
                        .for_each(|x| *x = compute.round(*x));
                }
                assert_eq!(output.bits(), in_f32.bits(), "scalar {scalar}");
            }
        }
    });
}

#[test]
fn a_scalar_that_the_dtype_would_round_acts_in_f32_and_the_result_stays_low() {
    for_each_low_policy!(rounds_once);
}
