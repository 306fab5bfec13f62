//! Law: every `Low` op runs low and every `Full` op in F32, `Keep` inserts no cast, and F64 is never touched.

use burn_amp_tests::prelude::*;

use super::{
    drive::*,
    parity::{leaves_wide, storages},
};

fn stores_as_its_class_says() {
    let compute = burn_dtype(precision());
    law(|op, class| {
        for low in storages(op) {
            for output in read(run_amp(op, low, None).0) {
                let Some(stored) = output.stored else {
                    continue;
                };
                match class {
                    Class::Low if leaves_wide(op) => assert_eq!(stored, DType::F32),
                    Class::Low => assert_eq!(stored, compute),
                    Class::Full => assert_eq!(stored, DType::F32),
                    Class::Internal | Class::Widest | Class::Keep => {
                        assert!([compute, DType::F32].contains(&stored))
                    }
                }
            }
        }
    });
}

#[test]
fn a_low_op_stores_the_compute_dtype_and_a_full_op_f32() {
    for_each_low_policy!(stores_as_its_class_says);
}

fn inserts_no_cast() {
    let compute = burn_dtype(precision());
    law(|op, class| {
        if !matches!(class, Class::Widest | Class::Keep) {
            return;
        }
        for (low, dtype) in [(false, DType::F32), (true, compute)] {
            let (outputs, casts) = run_amp(op, |_| low, None);
            assert_eq!(casts, [], "operands in {dtype:?}");
            for output in read(outputs) {
                assert!(output.stored.is_none_or(|stored| stored == dtype));
            }
        }
    });
}

#[test]
fn keep_and_widest_insert_no_cast_among_operands_of_one_dtype() {
    for_each_low_policy!(inserts_no_cast);
}

#[cfg(not(feature = "cubecl"))]
fn leaves_f64() {
    law(|op, _| {
        let plain = read(run_on::<Reference>(op, DType::F64, None));
        let run =
            || run_on::<burn_amp::Amp<Reference, burn_amp_tests::InForce>>(op, DType::F64, None);
        let (outputs, casts) = casts(run);
        assert_eq!(casts, []);
        for (output, plain) in read(outputs).iter().zip(&plain) {
            assert_eq!(
                (output.stored, output.logical),
                (plain.stored, plain.stored)
            );
            assert!(plain.stored.is_none_or(|stored| stored == DType::F64));
            assert_eq!(output.bits(), plain.bits());
        }
    });
}

/// Runs on the reference backend, because Vulkan has no F64, and so with the suite on it.
#[cfg(not(feature = "cubecl"))]
#[test]
fn f64_is_never_touched() {
    for_each_low_policy!(leaves_f64);
}
