//! The generator, the shrinker and the printer.

#[rustfmt::skip]
#[allow(unused_variables, reason = "a program may draw leaves that it does not use")]
mod printed;

use std::collections::HashSet;

use burn::tensor::TensorData;
use burn_amp_tests::random::{
    generate::program,
    oracle::{Failure, Verdict},
    outcome::Circumstances,
    print,
    program::{LeafKind, Op, Optimizer, Program, Read},
    reduction::Reduction,
    run::run,
    setting::Setting,
    shrink::shrink,
    subject::{OnByHand, OnPlain, Subject},
};

use super::{PROGRAMS, limits};

/// The exact values come from the decorator that rounds by hand, while it rounds nothing. They must be those of plain
/// Burn: in most programs, F32's rounding errors are all that differs.
#[test]
fn exact_values_are_those_of_plain_burn() {
    let mut near = 0;
    for seed in 0..PROGRAMS {
        let program = program(seed, limits());
        let still = Circumstances::default();
        let exact = run::<OnByHand>(&program, &still);
        let plain = run::<OnPlain>(&program, &still);
        let values = exact.results.iter().zip(&plain.results);
        let is_near =
            |(exact, plain): (f64, f64)| (exact - plain).abs() <= 1e-4 * exact.abs().max(1.0);
        near += u64::from(values.clone().all(|((name, exact), (_, plain))| {
            assert_eq!(exact.shape, plain.shape, "seed {seed}: {name}");
            exact.iter::<f64>().zip(plain.iter::<f64>()).all(is_near)
        }));
    }
    // The rest casts to BF16 itself, or divides by what is nearly zero.
    assert!(4 * near > 3 * PROGRAMS, "{near} of {PROGRAMS} programs");
}

#[test]
fn a_seed_gives_one_program_and_seeds_give_many() {
    let programs: Vec<Program> = (0..PROGRAMS).map(|seed| program(seed, limits())).collect();
    let ops: HashSet<String> = programs
        .iter()
        .flat_map(|program| {
            program
                .steps
                .iter()
                .map(|step| step.op.name(&program.layers))
        })
        .collect();
    for (seed, made) in programs.iter().enumerate() {
        assert_eq!(program(seed as u64, limits()), *made);
        assert!(made.is_well_formed(), "seed {seed}");
    }
    assert!(ops.len() > 110, "{} ops: {ops:?}", ops.len());
}

/// Whether a program reads the softmax of a product of matrices.
fn reads_weights(program: &Program) -> bool {
    let is_product = |operand: usize| {
        let step = operand.checked_sub(program.leaves.len());
        step.is_some_and(|step| program.steps[step].op == Op::Reduction(Reduction::Matmul {}))
    };
    program.steps.iter().any(|step| {
        let is_softmax = matches!(step.op, Op::Reduction(Reduction::Softmax { .. }));
        is_softmax && step.read != Read::Never && is_product(step.operands[0])
    })
}

#[test]
fn a_wrong_program_shrinks_to_the_steps_that_make_it_wrong() {
    let failure = Failure::NotPlain {
        name: "a softmax".to_owned(),
    };
    let check = |program: &Program| match reads_weights(program) {
        true => Verdict::Wrong(failure.clone()),
        false => Verdict::Right,
    };
    let programs = (0..1000).map(|seed| program(seed, limits()));
    let wrong: Vec<Program> = programs.filter(reads_weights).collect();
    assert!(wrong.len() > 4, "{} programs", wrong.len());
    for program in wrong {
        let (smallest, _) = shrink(&program, &failure, check);
        assert!(smallest.is_well_formed() && reads_weights(&smallest));
        let sizes = [
            smallest.steps.len(),
            smallest.leaves.len(),
            smallest.roots.len(),
        ];
        assert!(
            sizes[0] == 2 && sizes[1] <= 2 && sizes[2] == 0,
            "seed {}:\n{}",
            program.seed,
            print::rust(&smallest, "program")
        );
    }
}

/// The seeds of the programs in `random/generator/printed.rs`.
const PRINTED: [u64; 3] = [3, 18, 23];

/// A program without what is not printed: an optimizer and its parameters.
fn once(seed: u64) -> Program {
    let mut program = program(seed, limits());
    (program.passes, program.optimizer) = (1, Optimizer::None);
    for leaf in &mut program.leaves {
        leaf.kind = match leaf.kind {
            LeafKind::Parameter | LeafKind::Tracked => LeafKind::Tracked,
            LeafKind::Frozen | LeafKind::Input => LeafKind::Input,
        };
    }
    program
}

#[test]
fn a_printed_program_compiles_and_computes_what_the_program_does() {
    type B = <OnPlain as Subject>::B;
    let to = Setting::<B> {
        device: Default::default(),
    };
    let printed = [
        printed::first(&to),
        printed::second(&to),
        printed::third(&to),
    ];
    let names = ["first", "second", "third"];
    let text: String = PRINTED
        .iter()
        .zip(names)
        .map(|(seed, name)| print::rust(&once(*seed), name))
        .collect();
    let file = include_str!("printed.rs");
    assert!(
        file.ends_with(&text),
        "random/generator/printed.rs should end with:\n{text}"
    );
    for (seed, printed) in PRINTED.into_iter().zip(printed) {
        let results = run::<OnPlain>(&once(seed), &Circumstances::default()).results;
        // The gradients of layers are not printed.
        let is_of_layer = |(name, _): &&(String, TensorData)| name.contains("of parameter");
        assert_eq!(
            printed.0.len(),
            results.iter().filter(|result| !is_of_layer(result)).count()
        );
        for result in printed.0 {
            assert!(results.contains(&result), "seed {seed}: {}", result.0);
        }
    }
}
