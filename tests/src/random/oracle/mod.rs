//! What a program should compute, and what differs.

mod failure;

use std::{
    cell::Cell,
    panic::{self},
    sync::Once,
};

pub use failure::Failure;

use super::all::*;
use super::{
    bound::{ByHandRuns, has_zero_gradient},
    subject::{Checkpointed, F16, F16OnDevice, O0},
};

/// What was found out about a program.
#[derive(Clone, Debug)]
pub enum Verdict {
    Right,
    /// The exact values leave the range in which F16 makes sense, or plain Burn cannot run the program each time.
    Unfit,
    Wrong(Failure),
}

/// The largest exact value that F16 is expected to cope with.
const LARGEST: f64 = 1e4;

/// The smallest loss scale.
const SMALLEST_SCALE: f64 = 1.0 / (1 << 24) as f64;

/// Whether the plain backend computes the same bits for the same ops. Backends on CubeCL do not: their `sum` adds the parts
/// of several cubes atomically, in any order, and Fusion rounds a product and a sum in one kernel once, where what is
/// read in between decides which ops share a kernel. There preset `o0` is compared as low precision is, with casts by hand
/// in F32.
pub const REPEATS_BITS: bool = !cfg!(feature = "cubecl");

/// The runs of plain Burn before a program is called wrong.
const PLAIN_RUNS: usize = 30;

/// No program has more backward passes.
const MOST_PASSES: usize = 8;

/// Runs a program on all backends and compares.
pub fn check(program: &Program) -> Verdict {
    match program.checkpointing {
        false => check_in::<strategy::NoCheckpointing>(program),
        true => check_in::<Checkpointed>(program),
    }
}

fn check_in<C: strategy::CheckpointStrategy>(program: &Program) -> Verdict {
    let still = Circumstances::default();
    let Ok(exact) = caught(|| run::<OnByHand>(program, &still)) else {
        return Verdict::Unfit;
    };
    if !is_fit(&exact) || steps_by_noise(program, &exact) {
        return Verdict::Unfit;
    }
    let Ok(plain) = caught(|| run::<OnPlain<C>>(program, &still)) else {
        return Verdict::Unfit;
    };
    match compare::<C>(program, &exact, &plain) {
        Ok(()) => Verdict::Right,
        Err(_) if !repeats::<C>(program, &plain) => Verdict::Unfit,
        Err(failure) => Verdict::Wrong(failure),
    }
}

/// Whether plain Burn computes the same each time. A program with a loss that shares a leaf with another one panics in
/// some of its runs.
fn repeats<C: strategy::CheckpointStrategy>(program: &Program, plain: &Outcome) -> bool {
    (0..PLAIN_RUNS).all(|_| {
        let again = caught(|| run::<OnPlain<C>>(program, &Circumstances::default()));
        again.is_ok_and(|again| !REPEATS_BITS || different(&again, plain).is_none())
    })
}

/// Whether all exact values are in the range of F16.
fn is_fit(exact: &Outcome) -> bool {
    let values = exact
        .results
        .iter()
        .flat_map(|(_, data)| data.iter::<f64>());
    values.into_iter().all(|x| x.abs() < LARGEST)
}

/// Whether Adam divides a gradient that is nothing but rounding errors by its size.
fn steps_by_noise(program: &Program, exact: &Outcome) -> bool {
    program.optimizer.is_adaptive() && has_zero_gradient(exact)
}

fn compare<C: strategy::CheckpointStrategy>(
    program: &Program,
    exact: &Outcome,
    plain: &Outcome,
) -> Result<(), Failure> {
    // The runs by hand in F16 are shared by its policies if their scales are the same.
    let mut by_hand: Vec<(Precision, ByHandRuns)> = vec![];
    if !REPEATS_BITS {
        near::<O0, C>("o0", Precision::F32, program, exact, plain, &mut by_hand)?;
    } else if O0::is_in_force() {
        let o0 = found::<Under<O0, C>>("o0", program, &Circumstances::default())?;
        if let Some(name) = different(&o0, plain) {
            return Err(Failure::NotPlain { name });
        }
    }
    #[cfg(not(feature = "vulkan"))] // A software driver lacks BF16.
    near::<super::subject::Bf16, C>("bf16", Precision::BF16, program, exact, plain, &mut by_hand)?;
    near::<F16, C>("f16", Precision::F16, program, exact, plain, &mut by_hand)?;
    near::<F16OnDevice, C>(
        "f16, scale on the device",
        Precision::F16,
        program,
        exact,
        plain,
        &mut by_hand,
    )
}

fn near<'a, P: Tested, C: strategy::CheckpointStrategy>(
    policy: &'static str,
    compute: Precision,
    program: &'a Program,
    exact: &'a Outcome,
    plain: &'a Outcome,
    by_hand: &mut Vec<(Precision, ByHandRuns<'a>)>,
) -> Result<(), Failure> {
    if !P::is_in_force() {
        return Ok(());
    }
    let low = found::<Under<P, C>>(policy, program, &Circumstances::default())?;
    if low.overflowed {
        let mut runs = ByHandRuns::new(
            program,
            exact,
            plain,
            compute,
            vec![SMALLEST_SCALE; MOST_PASSES],
        );
        // Later passes under Adam are other programs, see `bound`.
        let differs = program.optimizer.is_adaptive() && program.passes > 1;
        return if differs || runs.overflows() {
            Ok(())
        } else {
            Err(Failure::Overflows { policy })
        };
    }
    if REPEATS_BITS {
        let disturbed = Circumstances {
            disturbed: true,
            ..Circumstances::default()
        };
        let again = found::<Under<P, C>>(policy, program, &disturbed)?;
        if let Some(name) = different(&again, &low) {
            return Err(Failure::NotTheSame { policy, name });
        }
    }
    let shapes = |outcome: &Outcome| -> Vec<(String, Vec<usize>)> {
        let results = outcome.results.iter();
        results
            .map(|(name, data)| (name.clone(), shape_of(data).to_vec()))
            .collect()
    };
    let (found, expected) = (shapes(&low), shapes(exact));
    if found != expected {
        let name = found.iter().find(|one| !expected.contains(one));
        let name = name.or_else(|| expected.iter().find(|one| !found.contains(one)));
        let name = name.map_or("the order".to_owned(), |(name, shape)| {
            format!("{name} {shape:?}")
        });
        return Err(Failure::OtherResults { policy, name });
    }
    let place = by_hand
        .iter()
        .position(|(dtype, runs)| *dtype == compute && runs.is_scaled_by(&low.scales));
    let place = place.unwrap_or_else(|| {
        by_hand.push((
            compute,
            ByHandRuns::new(program, exact, plain, compute, low.scales.clone()),
        ));
        by_hand.len() - 1
    });
    let off = by_hand[place].1.off(&low);
    if off.is_empty() {
        Ok(())
    } else {
        Err(Failure::Off { policy, off })
    }
}

fn found<S: Subject>(
    policy: &'static str,
    program: &Program,
    how: &Circumstances,
) -> Result<Outcome, Failure> {
    caught(|| run::<S>(program, how)).map_err(|message| Failure::Panics { policy, message })
}

/// The name of the first result whose bits differ.
fn different(found: &Outcome, expected: &Outcome) -> Option<String> {
    if found.results.len() != expected.results.len() {
        return Some("the number of results".to_owned());
    }
    let mut pairs = found.results.iter().zip(&expected.results);
    pairs
        .find(|(found, expected)| found != expected)
        .map(|((name, _), _)| name.clone())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function and returns the message if it panics, without printing it.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    QUIET.set(false);
    result.map_err(|payload| match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map_or("no message".to_owned(), |text| (*text).to_owned()),
    })
}
