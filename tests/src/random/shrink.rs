//! Makes a wrong program smaller, as long as it stays wrong in the same way.

use super::{
    layers::LayerSpec,
    oracle::{Failure, Verdict},
    program::{Leaf, LeafKind, Op, Optimizer, Program, Read},
    shape::Shape,
};

/// The most programs that are tried.
const MOST_TRIES: usize = 6000;

/// The smallest program found that is wrong in the same way, and what differs there.
pub fn shrink(
    program: &Program,
    failure: &Failure,
    check: impl Fn(&Program) -> Verdict,
) -> (Program, Failure) {
    let mut best = (program.clone(), failure.clone());
    let mut tries = 0;
    // Where one change was right, the next one of its kind is tried first.
    let mut place = 0;
    let mut since = 0;
    loop {
        let all = candidates(&best.0);
        if since >= all.len() || tries > MOST_TRIES {
            return best;
        }
        place %= all.len();
        let candidate = &all[place];
        if candidate.is_well_formed() {
            tries += 1;
            if let Verdict::Wrong(failure) = check(candidate)
                && failure.kind() == best.1.kind()
            {
                best = (candidate.clone(), failure);
                since = 0;
                continue;
            }
        }
        place += 1;
        since += 1;
    }
}

/// Smaller programs, those that leave out most first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut all = vec![];
    let change = |f: &dyn Fn(&mut Program)| {
        let mut changed = program.clone();
        f(&mut changed);
        (changed != *program).then(|| swept(changed))
    };
    all.extend(change(&|p| p.passes = 1));
    all.extend(change(&|p| p.optimizer = Optimizer::None));
    all.extend(change(&|p| p.checkpointing = false));
    for root in 0..program.roots.len() {
        all.extend(change(&|p| {
            p.roots.remove(root);
        }));
    }
    all.extend(change(&|p| {
        p.steps.iter_mut().for_each(|step| step.read = Read::Never)
    }));
    for half in [0, 1] {
        all.extend(change(&|p| {
            let middle = p.steps.len() / 2;
            let part = if half == 0 {
                0..middle
            } else {
                middle..p.steps.len()
            };
            p.steps[part]
                .iter_mut()
                .for_each(|step| step.read = Read::Never);
        }));
    }
    for place in (0..program.steps.len()).rev() {
        // A step gives way to one of its operands, or to a leaf.
        for operand in program.steps[place].operands.clone() {
            all.extend(change(&|p| replace(p, place, operand)));
        }
        all.extend(change(&|p| into_leaf(p, place)));
    }
    for place in 0..program.steps.len() {
        all.extend(change(&|p| p.steps[place].read = Read::Never));
        all.extend(change(&|p| p.steps[place].full_precision = false));
        for root in 0..program.roots.len() {
            all.extend(change(&|p| p.roots[root] = p.leaves.len() + place));
        }
    }
    for leaf in 0..program.leaves.len() {
        for kind in [LeafKind::Input, LeafKind::Tracked] {
            let order = |kind| {
                [
                    LeafKind::Input,
                    LeafKind::Tracked,
                    LeafKind::Frozen,
                    LeafKind::Parameter,
                ]
                .iter()
                .position(|k| *k == kind)
            };
            if order(kind) < order(program.leaves[leaf].kind) {
                all.extend(change(&|p| p.leaves[leaf].kind = kind));
            }
        }
        all.extend(change(&|p| p.leaves[leaf].offset = 0.0));
        all.extend(change(&|p| p.leaves[leaf].scale = 1.0));
    }
    for size in sizes(program) {
        for smaller in [size / 2, size - 1] {
            all.extend(change(&|p| resize(p, size, smaller)));
        }
    }
    all
}

/// Makes every use of a step's result a use of another value.
fn replace(program: &mut Program, place: usize, by: usize) {
    let number = program.leaves.len() + place;
    let uses = program
        .steps
        .iter_mut()
        .flat_map(|step| step.operands.iter_mut());
    for operand in uses.chain(program.roots.iter_mut()) {
        if *operand == number {
            *operand = by;
        }
    }
}

/// Makes a step's result a leaf.
fn into_leaf(program: &mut Program, place: usize) {
    let Some(shapes) = program.shapes() else {
        return;
    };
    let number = program.leaves.len() + place;
    let kind = if program.tracked()[number] {
        LeafKind::Tracked
    } else {
        LeafKind::Input
    };
    let leaf = Leaf {
        shape: shapes[number].clone(),
        scale: 1.0,
        offset: 0.0,
        kind,
    };
    // The leaf goes behind the others; everything after it moves by one.
    let at = program.leaves.len();
    let moved = |n: usize| match n {
        n if n == number => at,
        n if n >= at => n + 1,
        n => n,
    };
    program
        .steps
        .iter_mut()
        .for_each(|step| step.operands.iter_mut().for_each(|n| *n = moved(*n)));
    program.roots.iter_mut().for_each(|n| *n = moved(*n));
    program.leaves.push(leaf);
}

/// Leaves out steps, leaves and layers that nothing needs.
fn swept(program: Program) -> Program {
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
fn sizes(program: &Program) -> Vec<usize> {
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
fn resize(program: &mut Program, from: usize, to: usize) {
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
    for layer in &mut program.layers {
        match layer {
            LayerSpec::Linear { input, output, .. }
            | LayerSpec::Conv1d { input, output, .. }
            | LayerSpec::Conv2d { input, output, .. }
            | LayerSpec::ConvTranspose1d { input, output, .. }
            | LayerSpec::ConvTranspose2d { input, output, .. }
            | LayerSpec::Lstm {
                input,
                hidden: output,
            }
            | LayerSpec::Gru {
                input,
                hidden: output,
            }
            | LayerSpec::Embedding {
                words: input,
                width: output,
            } => {
                resized(input);
                resized(output);
            }
            LayerSpec::BatchNorm { channels: size }
            | LayerSpec::GroupNorm { channels: size, .. }
            | LayerSpec::InstanceNorm { channels: size }
            | LayerSpec::LayerNorm { width: size }
            | LayerSpec::RmsNorm { width: size }
            | LayerSpec::Attention { width: size, .. } => resized(size),
        }
    }
}
