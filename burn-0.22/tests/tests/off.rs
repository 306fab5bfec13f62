//! Law: with a policy that lowers nothing, every op has the bits of plain Burn, and so have its gradients.

use burn_amp::config::{Config, Preset};
use burn_amp_tests::{cases::Case, prelude::*};

/// The dtype and the bits of a result.
fn bits(result: &Option<TensorData>) -> Option<(DType, Vec<u64>)> {
    let bits = |x: f64| {
        if x.is_nan() {
            f64::NAN.to_bits()
        } else {
            x.to_bits()
        }
    };
    let data = result.as_ref()?;
    Some((data.dtype(), values(data).into_iter().map(bits).collect()))
}

#[test]
fn every_op_with_its_gradients_is_that_of_plain_burn() {
    let config = Config {
        preset: Preset::O0,
        ..Config::default()
    };
    burn_amp::configure(&burn_tensor::Device::default(), config).unwrap();
    let (mut compared, mut different) = (0, Vec::new());
    for op in ops() {
        for operands in [
            Operands::Cast(DType::F32),
            Operands::Cast(DType::F16),
            Operands::Cast(DType::BF16),
            Operands::Products,
        ] {
            let Some(expected) = computed::<PlainAutodiff>(&op, operands) else {
                continue;
            };
            let expected: Vec<_> = expected.iter().map(bits).collect();
            compared += expected.iter().flatten().count();
            let found = computed::<AmpAutodiff>(&op, operands);
            let found = found.map(|found| found.iter().map(bits).collect::<Vec<_>>());
            if found.as_ref() != Some(&expected) {
                different.push(format!("{op} of {operands:?}: {found:?}, not {expected:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    println!("{compared} results and gradients compared");
    assert!(compared > 1000, "{compared}");
}

#[test]
fn every_op_with_a_class_has_a_case() {
    let has_class = |op: &&Op| {
        let mut dtypes = burn_amp_core::Precision::ALL.into_iter();
        dtypes.any(|compute| op.class(compute).is_some())
    };
    let without: Vec<_> = Op::ALL
        .iter()
        .filter(has_class)
        .filter(|op| Case::<Plain>::of(**op).is_none())
        .collect();
    assert!(without.is_empty(), "{without:?}");
}
