//! Programs of several threads at a time.

use std::thread;

use burn::{backend::autodiff::checkpoint::strategy::NoCheckpointing, tensor::TensorData};
use burn_amp_tests::random::{
    generate::program,
    outcome::Circumstances,
    run::run,
    subject::{F16, Subject, Under},
};

use super::{PROGRAMS, limits};

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
