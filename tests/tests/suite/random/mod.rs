//! Random programs: a few hundred fixed ones. `cargo xtask fuzz` runs any number.
//!
//! Law: random programs compute what casts by hand in F64 allow, and at `o0` the bits of plain Burn where the backend
//! repeats bits.

// The generator itself is the same on every backend.
#[cfg(not(feature = "cubecl"))]
mod generator;

// CubeCL does not repeat bits.
#[cfg(not(feature = "cubecl"))]
mod side_by_side;

use burn_amp_tests::random::{
    generate::program,
    limits::Limits,
    oracle::{Verdict, check},
    print,
    shrink::shrink,
};

/// The number of programs. On a software driver most of the time is spent compiling their kernels, some seconds for each.
const PROGRAMS: u64 = if cfg!(feature = "cubecl") { 12 } else { 200 };

fn limits() -> Limits {
    Limits::default()
}

#[test]
fn programs_compute_what_casts_by_hand_and_plain_burn_compute() {
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
        10 * unfit < PROGRAMS,
        "{unfit} of {PROGRAMS} programs are out of range"
    );
}
