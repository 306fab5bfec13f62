//! Law: an unchanged program of Burn 0.22 trains on a backend of CubeCL as in F32.

use std::process::Command;

/// What may lie between a loss in F16 and that in F32, relative to it, after 40 steps.
const TOLERANCE: f32 = 0.03;

/// The losses of the program under a setting of burn-amp.
fn losses(name: &str, value: &str) -> Vec<f32> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_program"));
    let output = program.env(name, value).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers = text.lines().filter_map(|line| line.split(' ').next());
    numbers.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn the_losses_of_f16_are_those_of_f32() {
    let full = losses("BURN_AMP_PRESET", "o0");
    let low = losses("BURN_AMP_COMPUTE", "f16");
    assert_eq!((full.len(), low.len()), (40, 40));
    assert_ne!(full, low);
    for (step, (low, full)) in low.into_iter().zip(full).enumerate() {
        assert!(
            (low - full).abs() <= TOLERANCE * full,
            "step {step}: a loss of {low}, in F32 {full}"
        );
    }
}
