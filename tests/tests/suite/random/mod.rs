//! Random programs: a few hundred fixed ones. `cargo xtask fuzz` runs any number.
//!
//! Law: random programs compute what casts by hand in F64 allow, and at `o0` the bits of plain Burn where the backend
//! repeats bits. Law: what a graph keeps in eight bits changes no value, and gradients little. Law: no call of a random
//! program that is compared with Flex differs by more than its dtype allows.

// The generator itself is the same on every backend.
#[cfg(not(feature = "cubecl"))]
mod generator;

// CubeCL does not repeat bits.
#[cfg(not(feature = "cubecl"))]
mod side_by_side;

#[cfg(not(feature = "cubecl"))]
use std::sync::Mutex;

#[cfg(not(feature = "cuda"))]
use burn_amp_tests::random::alike::check_alike;
use burn_amp_tests::random::{
    generate::program,
    limits::Limits,
    oracle::{Verdict, check},
    print,
    program::Program,
    shrink::shrink,
};
#[cfg(not(feature = "cubecl"))]
use burn_amp_tests::random::{oracle::Failure, saved::check_saved};

/// The number of programs. On a software driver most of the time is spent compiling their kernels, some seconds for each.
const PROGRAMS: u64 = if cfg!(feature = "cubecl") { 8 } else { 200 };

fn limits() -> Limits {
    Limits::default()
}

/// Checks each program, and shrinks the first wrong one.
fn are_right(check: fn(&Program) -> Verdict) {
    let mut unfit = 0;
    for seed in 0..PROGRAMS {
        let program = program(seed, limits());
        match check(&program) {
            Verdict::Right => {}
            Verdict::Unfit => unfit += 1,
            Verdict::Wrong(failure) => {
                let (smallest, failure) = shrink(&program, &failure, check);
                panic!(
                    "seed {seed}: {failure}\n{}",
                    print::rust(&smallest, "program")
                );
            }
        }
    }
    assert!(
        5 * unfit < PROGRAMS,
        "{unfit} of {PROGRAMS} programs are out of range"
    );
}

#[test]
fn programs_compute_what_casts_by_hand_and_plain_burn_compute() {
    are_right(check);
}

// CubeCL does not repeat bits, and a software driver has no BF16.
#[cfg(not(feature = "cubecl"))]
#[test]
fn eight_bits_of_what_a_graph_keeps_change_no_value_and_gradients_little() {
    /// Programs that divide by numbers near zero, or by the deviation of numbers that are all alike.
    static FAR: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    are_right(|program| match check_saved(program) {
        Verdict::Wrong(Failure::Apart { .. }) => {
            FAR.lock().unwrap().push(program.seed);
            Verdict::Right
        }
        verdict => verdict,
    });
    let far = FAR.lock().unwrap();
    assert!(
        50 * far.len() as u64 <= PROGRAMS,
        "gradients are far off: {far:?}"
    );
}

/// Not on CUDA, whose products of F32 are those of TF32.
#[cfg(not(feature = "cuda"))]
#[test]
fn no_call_of_a_program_differs_from_flex_by_more_than_its_dtype_allows() {
    are_right(check_alike);
}
