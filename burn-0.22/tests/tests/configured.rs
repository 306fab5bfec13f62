//! The crate `burn-amp` on a device of Burn 0.22, which has no backend type.

use burn_amp::{
    Error,
    config::{Compute, Config, InForceBy, Locate, SetupError},
};
use burn_tensor::{Device, Tensor};

/// A gradient that is beyond the range of F16 at every loss scale: infinite.
fn overflow(device: &Device) -> Option<Tensor<1>> {
    let weight = Tensor::<1>::from_floats([1.0], device).require_grad();
    let loss = (weight.clone() * f32::INFINITY).sum();
    weight.grad(&loss.backward())
}

// One test, because a policy in force is that of the process.
#[test]
fn a_device_of_no_backend_type_has_a_policy_and_a_loss_scale() {
    a_device_is_configured_once_and_tells_its_policy_and_loss_scale();
    a_thread_has_its_own_loss_scale();
    a_block_runs_in_f32_and_a_report_says_so();
}

fn a_device_is_configured_once_and_tells_its_policy_and_loss_scale() {
    assert!(burn_amp::is_on());
    let device = Device::flex().autodiff();
    let mut config = Config {
        compute: Compute::F16,
        ..Config::default()
    };
    config.overflow.locate = Locate::Always;
    let effective = burn_amp::configure(&device, config.clone()).unwrap();
    assert_eq!(effective.compute, Compute::F16);
    // It is the same device without autodiff.
    let effective = burn_amp::effective_config(&Device::flex()).unwrap();
    assert_eq!(effective.compute, Compute::F16);

    let again = burn_amp::configure(&device, config).unwrap_err();
    let Error::Setup(SetupError::InForce {
        by: InForceBy::Configure(place),
        ..
    }) = again
    else {
        panic!("{again}");
    };
    assert!(place.file().ends_with("configured.rs"), "{place}");

    let scale = burn_amp::loss_scale(&device).unwrap();
    assert_eq!((scale.steps(), scale.skipped_steps()), (0, 0));
    overflow(&device);
    assert_eq!((scale.steps(), scale.skipped_steps()), (1, 1));
    assert!(
        burn_amp::diagnose::last_overflow(&device)
            .unwrap()
            .is_some()
    );
}

fn a_thread_has_its_own_loss_scale() {
    let device = Device::flex();
    let shared = burn_amp::loss_scale(&device).unwrap();
    let before = shared.steps();
    let own = std::thread::spawn(move || {
        let _own = burn_amp::scaling::own_loss_scale(&device).unwrap();
        overflow(&device.clone().autodiff());
        burn_amp::loss_scale(&device).unwrap().steps()
    });
    assert_eq!(own.join().unwrap(), 1);
    assert_eq!(shared.steps(), before);
}

fn a_block_runs_in_f32_and_a_report_says_so() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::full([8, 8], 1.0 / 3.0, &device);
    let product = || x.clone().matmul(x.clone()).into_data();
    let recording = burn_amp::diagnose::record(&device).unwrap();
    let low = product();
    let full = burn_amp::full_precision(product).unwrap();
    let calls = recording.finish().calls;
    let plain = Tensor::<2>::full([8, 8], 1.0 / 3.0, &Device::flex());
    assert_eq!(full, plain.clone().matmul(plain).into_data());
    assert_ne!(low, full);
    assert_eq!(calls.len(), 2, "{calls:?}");
}
