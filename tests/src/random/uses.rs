//! When a program needs a value for the last time.

use super::all::*;

/// Whether the step uses the operand once.
pub fn is_last(step: &Step, operand: usize) -> bool {
    step.operands
        .iter()
        .filter(|number| **number == operand)
        .count()
        == 1
}

/// The number of the last step that uses each value; those that are read later, and roots, are used at the end.
pub fn last_uses(program: &Program) -> Vec<Option<usize>> {
    let count = program.leaves.len() + program.steps.len();
    let mut last = vec![None; count];
    for (place, step) in program.steps.iter().enumerate() {
        let number = program.leaves.len() + place;
        step.operands
            .iter()
            .for_each(|operand| last[*operand] = Some(number));
    }
    for (place, step) in program.steps.iter().enumerate() {
        if !matches!(step.read, Read::Never | Read::AtOnce) {
            last[program.leaves.len() + place] = Some(count);
        }
    }
    program
        .roots
        .iter()
        .for_each(|root| last[*root] = Some(count));
    last
}
