//! The policy in force: it is configured once, can be overridden per op and switched off in a scope, and a wrong one is
//! refused with a reason.

use std::path::Path;

use burn_amp::{
    Amp,
    config::{ConfigError, InForceBy, Saved, SetupError},
    configure, effective_config,
};
use burn_amp_tests::prelude::*;
use burn_backend::{BackendTypes, DTypeUsageSet};
use instrumented::{Instrument, Instrumented, Value};

fn ones<P: ConfigSource>() -> Tensor<Amp<Plain, P>, 2> {
    let _policy = enter::<P>();
    Tensor::ones([2, 2], &here())
}

policy!(Configured, Config::default());

#[test]
fn code_configures_once_and_before_the_first_tensor() {
    type B = Amp<Plain, Configured>;
    let config = configure::<B>(&here(), computing_in(Compute::F16)).unwrap();
    assert_eq!(config.compute, Compute::F16);

    let x = ones::<Configured>();
    assert_eq!(storage_dtype(&x.clone().matmul(x)), DType::F16);

    let again = configure::<B>(&here(), Config::default()).unwrap_err();
    assert!(matches!(again, SetupError::InForce { .. }));
    assert_eq!(
        effective_config::<B>(&here()).unwrap().compute,
        Compute::F16
    );
}

/// Who put the policy in force is named: an earlier call of `configure` with its line, or the first use.
#[test]
fn a_second_configuration_is_told_who_was_first() {
    policy!(Twice, Config::default());
    policy!(Late, computing_in(Compute::F16));

    let line = line!() + 1;
    configure::<Amp<Plain, Twice>>(&here(), computing_in(Compute::F16)).unwrap();
    let again = configure::<Amp<Plain, Twice>>(&here(), Config::default()).unwrap_err();
    let SetupError::InForce {
        by: InForceBy::Configure(first),
        ..
    } = again
    else {
        panic!("{again}");
    };
    assert_eq!((first.file(), first.line()), (file!(), line));
    let said = format!("`configure` was called at {}:{line}; call it once", file!());
    assert!(again.to_string().ends_with(&said), "{again}");

    let _ = ones::<Late>();
    let late = configure::<Amp<Plain, Late>>(&here(), Config::default()).unwrap_err();
    assert!(late.to_string().contains("the first tensor"), "{late}");
    assert!(late.to_string().ends_with("configure before"), "{late}");
}

policy!(Automatic, Config::default());

/// Neither Flex nor the software Vulkan driver accelerates half precision.
#[cfg(not(feature = "cuda"))]
#[test]
fn auto_stays_in_f32_where_nothing_is_accelerated() {
    let config = effective_config::<Amp<Plain, Automatic>>(&here()).unwrap();
    assert_eq!(config.compute, Compute::F32);
    let x = ones::<Automatic>();
    assert_eq!(storage_dtype(&x.clone().matmul(x)), DType::F32);
}

#[cfg(feature = "cuda")]
#[test]
fn auto_takes_bf16_where_it_is_accelerated() {
    let x = ones::<Automatic>();
    assert_eq!(storage_dtype(&x.clone().matmul(x)), DType::BF16);
}

policy!(InF32, computing_in(Compute::F32));

policy!(
    Overridden,
    in_f16(|it| {
        it.ops = [(Op::softmax, Class::Keep), (Op::float_matmul, Class::Full)].into();
    })
);

#[test]
fn an_override_changes_its_op_and_no_other() {
    let x = ones::<Overridden>();
    assert_eq!(storage_dtype(&x.clone().matmul(x.clone())), DType::F32);
    let low = x.cast(DType::F16);
    assert_eq!(storage_dtype(&softmax(low.clone(), 1)), DType::F16);
    assert_eq!(storage_dtype(&low.exp()), DType::F32);
}

struct FromBadFile;

impl ConfigSource for FromBadFile {
    fn config() -> Result<Config, ConfigError> {
        Config::from_toml("[ops]\nsoftmx = \"full\"\n", Path::new("amp.toml"))
    }
}

#[test]
fn effective_config_returns_what_is_wrong_with_the_configuration() {
    let error = effective_config::<Amp<Plain, FromBadFile>>(&here()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "amp.toml:2: ops: unknown op `softmx`; did you mean `softmax`?"
    );
}

#[test]
#[should_panic(expected = "amp.toml:2: ops: unknown op `softmx`; did you mean `softmax`?")]
fn without_it_the_first_tensor_panics_with_the_same_words() {
    ones::<FromBadFile>();
}

#[test]
fn the_scope_is_off_for_its_thread_nests_and_ends_with_a_panic() {
    let x = ones::<InF16>();
    let dtype = || storage_dtype(&x.clone().matmul(x.clone()));
    assert_eq!(dtype(), DType::F16);
    full_precision(|| {
        assert_eq!(full_precision(dtype), DType::F32);
        assert_eq!(dtype(), DType::F32);
        std::thread::scope(|threads| {
            assert_eq!(threads.spawn(dtype).join().unwrap(), DType::F16);
        });
    });
    let panicked = std::panic::catch_unwind(|| full_precision(|| panic!("in the scope")));
    assert!(panicked.is_err());
    assert_eq!(dtype(), DType::F16);
}

#[test]
fn two_policies_live_in_one_process() {
    let (low, full) = (ones::<InF16>(), ones::<InF32>());
    assert_eq!(storage_dtype(&low.clone().matmul(low)), DType::F16);
    assert_eq!(storage_dtype(&full.clone().matmul(full)), DType::F32);
}

#[cfg(feature = "vulkan")]
#[test]
fn a_dtype_that_the_device_lacks_is_refused_by_name() {
    let error = effective_config::<Amp<Plain, InBf16>>(&here()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, SetupError::UnsupportedDtype { .. }));
    says(
        &message,
        "cannot store and compute in bf16; it can in: f32, f16",
    );
}

policy!(SavedInEightBits, in_f16(|it| it.saved = Saved::EightBits));

/// A device that knows no integers of eight bits, as those of WebGPU.
#[derive(Clone, Copy, Debug, Default)]
struct WithoutI8;

impl Instrument<Plain> for WithoutI8 {
    type Seen = ();

    fn before<'a>(_op: Op, _operands: impl Iterator<Item = Value<'a, Plain>>) {}

    fn after<'a>(_seen: (), _results: impl Iterator<Item = Value<'a, Plain>>) {}

    fn dtype_usage(device: &<Plain as BackendTypes>::Device, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::I8 => DTypeUsageSet::new(),
            _ => Plain::dtype_usage(device, dtype),
        }
    }
}

#[test]
fn eight_bits_are_refused_where_the_device_cannot_store_them() {
    type Lacking = Instrumented<Plain, WithoutI8>;
    let config = effective_config::<Amp<Plain, SavedInEightBits>>(&here()).unwrap();
    assert_eq!(config.saved, Saved::EightBits);
    let error = effective_config::<Amp<Lacking, SavedInEightBits>>(&here()).unwrap_err();
    assert!(matches!(error, SetupError::UnsupportedSaved { .. }));
    says(
        &error.to_string(),
        r#"cannot store i8, which "8bit" needs; "whole" does not"#,
    );
}
