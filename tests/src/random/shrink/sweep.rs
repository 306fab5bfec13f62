//! Programs without what nobody reads.

use crate::random::all::*;

/// Leaves out steps, leaves and layers that nothing needs.
pub(super) fn swept(program: Program) -> Program {
    let mut program = without_unused_values(program);
    let is_used =
        |program: &Program, layer| program.steps.iter().any(|step| step.op == Op::Layer(layer));
    for layer in (0..program.layers.len()).rev() {
        if !is_used(&program, layer) {
            program.layers.remove(layer);
            for step in &mut program.steps {
                if let Op::Layer(number) = &mut step.op {
                    *number -= usize::from(*number > layer);
                }
            }
        }
    }
    program
}

fn without_unused_values(mut program: Program) -> Program {
    loop {
        let count = program.leaves.len() + program.steps.len();
        let unused = (0..count).rev().find(|n| {
            let is_read = n
                .checked_sub(program.leaves.len())
                .is_some_and(|step| program.steps[step].read != Read::Never);
            let is_used = program.steps.iter().any(|step| step.operands.contains(n));
            !is_read && !is_used && !program.roots.contains(n)
        });
        let Some(unused) = unused else { break };
        match unused.checked_sub(program.leaves.len()) {
            None => drop(program.leaves.remove(unused)),
            Some(step) => drop(program.steps.remove(step)),
        }
        let moved = |n: &mut usize| *n -= usize::from(*n > unused);
        program
            .steps
            .iter_mut()
            .for_each(|step| step.operands.iter_mut().for_each(moved));
        program.roots.iter_mut().for_each(moved);
    }
    program
}

/// The sizes above 1 of the leaves, the largest first.
pub(super) fn sizes(program: &Program) -> Vec<usize> {
    let mut sizes: Vec<usize> = program
        .leaves
        .iter()
        .flat_map(|leaf| leaf.shape.clone())
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes.retain(|size| *size > 1);
    sizes
}

/// Replaces a size in all leaves and layers.
pub(super) fn resize(program: &mut Program, from: usize, to: usize) {
    let resized = |size: &mut usize| {
        if *size == from {
            *size = to;
        }
    };
    let in_shape = |shape: &mut Shape| shape.iter_mut().for_each(resized);
    program
        .leaves
        .iter_mut()
        .for_each(|leaf| in_shape(&mut leaf.shape));
    let layers = program.layers.iter_mut().flat_map(LayerSpec::sizes);
    layers.for_each(resized);
}
