//! Whether a program computes the same if its graph keeps eight bits of what the backward pass reads.

use super::all::*;
use super::subject::{Bf16, Bf16Saved8Bit, Checkpointed, O0};

/// What the policy is called.
const POLICY: &str = "bf16, saved in 8 bits";

/// The distance of a program's gradients in BF16 from those in F32, over their norm, beyond which they are noise: some programs
/// multiply each rounding error, and some gradients are zero but for such errors.
const NOISE: f64 = 0.1;

/// The root mean square of gradients that are zero but for rounding errors, such as those of a norm over one element.
const ZERO: f64 = 1e-3;

/// The distance of the gradients of eight bits from those of all bits, over their norm. An operand is off by up to 1/254 of the
/// largest element of its block, where BF16 is off by 1/512 of the element itself.
const TOLERANCE: f64 = 0.3;

/// Compares the results of BF16 with and without: values are the same bits, gradients are near.
pub fn check_saved(program: &Program) -> Verdict {
    let once = Program {
        passes: 1,
        optimizer: Optimizer::None,
        ..program.clone()
    };
    match program.checkpointing {
        false => compared::<strategy::NoCheckpointing>(&once),
        true => compared::<Checkpointed>(&once),
    }
}

fn compared<C: strategy::CheckpointStrategy>(program: &Program) -> Verdict {
    let still = Circumstances::default();
    let _lowered = thresholds::lower();
    let exact = caught(|| run::<Under<O0, C>>(program, &still));
    let whole = caught(|| run::<Under<Bf16, C>>(program, &still));
    let (Ok(exact), Ok(whole)) = (exact, whole) else {
        return Verdict::Unfit;
    };
    if !distance(&exact, &whole).is_ok_and(|noise| noise <= NOISE) {
        return Verdict::Unfit;
    }
    let policy = POLICY;
    let failure = match caught(|| run::<Under<Bf16Saved8Bit, C>>(program, &still)) {
        Err(message) => Failure::Panics { policy, message },
        Ok(found) => match (differs(&whole, &found), distance(&whole, &found)) {
            (None, Ok(distance)) if distance <= TOLERANCE => return Verdict::Right,
            (None, Ok(distance)) => Failure::Apart {
                policy,
                text: format!("the gradients are off by {distance:.3} of their norm"),
            },
            (Some(name), _) | (None, Err(name)) => Failure::OtherResults { policy, name },
        },
    };
    Verdict::Wrong(failure)
}

fn is_gradient(name: &str) -> bool {
    name.starts_with("gradient")
}

/// The name of the first value, other than a gradient, that has other bits.
fn differs(whole: &Outcome, found: &Outcome) -> Option<String> {
    let pairs = whole.results.iter().zip(&found.results);
    let other = pairs.filter(|((name, _), _)| !is_gradient(name));
    let other = other.into_iter().find(|(whole, found)| whole != found);
    other.map(|((name, _), _)| name.clone())
}

/// The distance of all gradients, over their norm; infinite if they are zero. What is not finite in one is left out.
///
/// # Errors
///
/// Returns the name of a gradient that is finite in the one and not in the other, or has another shape.
fn distance(whole: &Outcome, found: &Outcome) -> Result<f64, String> {
    let (mut squares, mut norm, mut count) = (0.0, 0.0, 0.0);
    for ((name, whole), (_, found)) in whole.results.iter().zip(&found.results) {
        if !is_gradient(name) {
            continue;
        }
        if shape_of(whole) != shape_of(found) {
            return Err(name.clone());
        }
        for (whole, found) in whole.iter::<f64>().zip(found.iter::<f64>()) {
            match (whole.is_finite(), found.is_finite()) {
                (true, true) => {
                    squares += (whole - found).powi(2);
                    norm += whole * whole;
                    count += 1.0;
                }
                (true, false) => return Err(name.clone()),
                (false, _) => {}
            }
        }
    }
    let floor = count * ZERO * ZERO;
    Ok(match squares {
        0.0 if norm > floor || count == 0.0 => 0.0,
        _ if norm > floor => f64::sqrt(squares / norm),
        _ => f64::INFINITY,
    })
}
