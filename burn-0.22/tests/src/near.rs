//! Law: in low precision every op, and each of its gradients, is as near to plain Burn in F32 as some roundings allow.

use burn_amp::config::{Compute, Config, LossScaleMode};

use crate::prelude::*;

/// The error that an op may have, in epsilons of the low precision relative to the largest value: its operands are exact, so
/// that of a gradient that is rounded, multiplied by a rounded result, and rounded again.
const TOLERANCE: f64 = 4.0;

/// Checks the law in one low precision, with a policy that it puts in force for the process.
///
/// # Panics
///
/// Panics with all ops that break the law.
pub fn check(compute: Compute, epsilon: f64) {
    let mut config = Config {
        compute,
        ..Config::default()
    };
    // A scale that a gradient of a test overflows would withhold it.
    config.loss_scale.mode = LossScaleMode::Off;
    burn_amp::configure(&burn_tensor::Device::default(), config).unwrap();
    let (mut compared, mut lowered, mut wrong) = (0, 0, Vec::new());
    for op in ops() {
        for operands in [Operands::Cast(DType::F32), Operands::Products] {
            let Some(expected) = computed::<PlainAutodiff>(&op, operands) else {
                continue;
            };
            let Some(found) = computed::<AmpAutodiff>(&op, operands) else {
                wrong.push(format!("{op} of {operands:?} panics"));
                continue;
            };
            assert_eq!(found.len(), expected.len(), "{op}");
            for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let place = format!("{op} of {operands:?}, result {place}");
                let (Some(found), Some(expected)) = (found, expected) else {
                    if found.is_some() != expected.is_some() {
                        wrong.push(format!("{place} is missing or new"));
                    }
                    continue;
                };
                compared += 1;
                lowered += usize::from(found != expected);
                if found.shape() != expected.shape() || found.dtype() != expected.dtype() {
                    wrong.push(format!("{place} has another shape or dtype"));
                    continue;
                }
                let error = error(&values(found), &values(expected)) / epsilon;
                if error > TOLERANCE {
                    wrong.push(format!("{place} is {error:.1} epsilons off"));
                }
            }
        }
    }
    println!("{compared} results and gradients compared, {lowered} of them rounded");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 400 && lowered > 100, "{compared}, {lowered}");
}

/// The largest difference relative to the largest expected value. What is not finite must be equal.
fn error(found: &[f64], expected: &[f64]) -> f64 {
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(f64::MIN_POSITIVE, |max, x| x.abs().max(max));
    let errors = found.iter().zip(expected).map(|(found, expected)| {
        match (found.is_finite(), expected.is_finite()) {
            (true, true) => (found - expected).abs() / largest,
            _ if found == expected || found.is_nan() && expected.is_nan() => 0.0,
            _ => f64::INFINITY,
        }
    });
    errors.fold(0.0, f64::max)
}
