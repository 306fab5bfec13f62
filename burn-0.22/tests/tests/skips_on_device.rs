//! A policy in force is that of the process.

#[test]
fn a_step_with_an_overflowed_part_is_skipped_exactly() {
    burn_amp_tests::skips::check(false);
}
