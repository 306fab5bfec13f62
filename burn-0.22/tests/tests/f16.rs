//! In F16 every op is near to plain Burn in F32.

use burn_amp::config::Compute;

#[test]
fn every_op_with_its_gradients_is_near_plain_burn() {
    burn_amp_tests::near::check(Compute::F16, f64::from(2f32.powi(-10)));
}
