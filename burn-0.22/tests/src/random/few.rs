//! A few hundred random programs under one policy.
//!
//! Law: on Burn 0.22, random programs compute what casts by hand in F64 allow, and at `o0` the bits of Burn's own autodiff.

use crate::random::{
    generate::program,
    limits::Limits,
    oracle::{Verdict, check as checked},
    print,
    shrink::shrink,
    subject::Tested,
};

/// The number of programs; `RANDOM_PROGRAMS` asks for another one.
const PROGRAMS: u64 = 200;

/// Checks the law under a policy, for which the process is.
///
/// # Panics
///
/// Panics with the smallest form of a program that breaks it.
pub fn check<P: Tested>() {
    P::put_in_force();
    let asked = std::env::var("RANDOM_PROGRAMS").ok();
    let programs = asked.map_or(PROGRAMS, |number| number.parse().expect("a number"));
    let mut unfit = 0;
    for seed in 0..programs {
        let program = program(seed, Limits::default());
        match checked(&program) {
            Verdict::Right => {}
            Verdict::Unfit => unfit += 1,
            Verdict::Wrong(failure) => {
                let (smallest, failure) = shrink(&program, &failure, checked);
                let printed = print::rust(&smallest, "program");
                panic!("seed {seed}: {failure}\n{printed}");
            }
        }
    }
    // 21 of the 200 are.
    assert!(
        8 * unfit < programs,
        "{unfit} of {programs} programs are out of range"
    );
}
