//! Random programs of Burn 0.22 under one policy, which is that of the process.

use burn_amp_tests::{few, random::subject::F16OnDevice};

#[test]
fn programs_compute_what_casts_by_hand_compute() {
    few::check::<F16OnDevice>();
}
