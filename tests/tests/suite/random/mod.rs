//! Random programs: a few hundred fixed ones. `cargo xtask fuzz` runs any number.
//!
//! Law: random programs compute what casts by hand in F64 allow, and at `o0` the bits of plain Burn, on the CPU
//! backend.

// The generator itself is the same on every backend.
#[cfg(not(feature = "cubecl"))]
mod generator;

use std::thread;

use burn::{backend::autodiff::checkpoint::strategy::NoCheckpointing, tensor::TensorData};
use burn_amp_tests::random::{
    generate::program,
    limits::Limits,
    oracle::{Verdict, check},
    outcome::Circumstances,
    print,
    run::run,
    shrink::shrink,
    subject::{F16, Subject, Under},
};

/// The number of programs.
const PROGRAMS: u64 = 300;

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

#[cfg(not(feature = "fusion"))]
#[test]
fn programs_side_by_side_compute_the_bits_that_each_computes_alone() {
    type InF16 = Under<F16, NoCheckpointing>;
    fn bits<S: Subject>(seed: u64) -> Vec<(String, TensorData)> {
        run::<S>(&program(seed, limits()), &Circumstances::default()).results
    }
    let seeds: Vec<u64> = (1000..1000 + PROGRAMS / 6).collect();
    let alone: Vec<_> = seeds.iter().map(|seed| bits::<InF16>(*seed)).collect();
    let together: Vec<_> = thread::scope(|scope| {
        let run = |seeds: Vec<u64>| {
            scope.spawn(move || seeds.into_iter().map(bits::<InF16>).collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..4).map(|_| run(seeds.clone())).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for results in together {
        for ((seed, found), expected) in seeds.iter().zip(&results).zip(&alone) {
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
