//! Makes a wrong program smaller, as long as it stays wrong in the same way.

mod sweep;

use std::ops::Range;

use self::sweep::{resize, sizes, swept};
use super::all::*;

/// The most programs that are tried.
const MOST_TRIES: usize = 2000;

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
    'smaller: loop {
        let changes = changes(&best.0);
        for number in 0..changes.len() {
            let at = (place + number) % changes.len();
            let changed = swept(changes[at].of(&best.0));
            // Each program is smaller than the one before, so none comes twice.
            if size(&changed) >= size(&best.0) || !changed.is_well_formed() {
                continue;
            }
            if tries == MOST_TRIES {
                return best;
            }
            tries += 1;
            if let Verdict::Wrong(failure) = check(&changed)
                && failure.kind() == best.1.kind()
            {
                best = (changed, failure);
                place = at;
                continue 'smaller;
            }
        }
        return best;
    }
}

/// What makes a program hard to read, the worst first.
fn size(program: &Program) -> [usize; 10] {
    let Program {
        seed: _,
        leaves,
        layers,
        steps,
        roots,
        passes,
        optimizer,
        checkpointing,
    } = program;
    let is_unusual = |leaf: &Leaf| usize::from(leaf.scale != 1.0) + usize::from(leaf.offset != 0.0);
    [
        steps.len(),
        layers.len(),
        roots.len(),
        passes + usize::from(*optimizer != Optimizer::None) + usize::from(*checkpointing),
        leaves.len(),
        steps.iter().filter(|step| step.read != Read::Never).count(),
        steps.iter().filter(|step| step.full_precision).count(),
        leaves.iter().map(|leaf| rank(leaf.kind)).sum(),
        leaves.iter().flat_map(|leaf| &leaf.shape).sum(),
        leaves.iter().map(is_unusual).sum::<usize>() + roots.iter().sum::<usize>(),
    ]
}

/// Kinds of leaves, the simplest first.
const KINDS: [LeafKind; 4] = [
    LeafKind::Input,
    LeafKind::Tracked,
    LeafKind::Frozen,
    LeafKind::Parameter,
];

fn rank(kind: LeafKind) -> usize {
    let place = KINDS.iter().position(|other| *other == kind);
    place.expect("`KINDS` has all kinds")
}

/// A change that may make a program smaller. Steps, leaves and roots are given by their places.
#[derive(Clone, Debug)]
enum Change {
    OnePass,
    NoOptimizer,
    NoCheckpointing,
    WithoutRoot(usize),
    /// The program reads no results of these steps.
    ReadNothing(Range<usize>),
    /// Leaves take the place of the results of these steps.
    Cut(Range<usize>),
    /// A step gives way to a value.
    Replace {
        step: usize,
        by: usize,
    },
    UnderPolicy(usize),
    OtherRoot {
        root: usize,
        value: usize,
    },
    OtherKind {
        leaf: usize,
        kind: LeafKind,
    },
    Unscaled(usize),
    Resize {
        from: usize,
        to: usize,
    },
}

/// Changes of a program, those that leave out most first.
fn changes(program: &Program) -> Vec<Change> {
    let (leaves, steps) = (program.leaves.len(), program.steps.len());
    let mut all = vec![
        Change::OnePass,
        Change::NoOptimizer,
        Change::NoCheckpointing,
    ];
    all.extend((0..program.roots.len()).map(Change::WithoutRoot));
    let mut length = steps;
    while length > 0 {
        let parts = (0..steps).step_by(length).rev();
        let parts = parts.map(|start| start..(start + length).min(steps));
        all.extend(parts.clone().map(Change::Cut));
        all.extend(parts.map(Change::ReadNothing));
        length /= 2;
    }
    for step in (0..steps).rev() {
        let operands = program.steps[step].operands.iter();
        all.extend(operands.map(|by| Change::Replace { step, by: *by }));
    }
    for root in 0..program.roots.len() {
        all.extend((0..leaves + steps).map(|value| Change::OtherRoot { root, value }));
    }
    all.extend((0..steps).map(Change::UnderPolicy));
    for leaf in 0..leaves {
        all.extend(KINDS.map(|kind| Change::OtherKind { leaf, kind }));
        all.push(Change::Unscaled(leaf));
    }
    for from in sizes(program) {
        all.extend([1, from / 2, from - 1].map(|to| Change::Resize { from, to }));
    }
    all
}

impl Change {
    /// The changed program.
    fn of(&self, program: &Program) -> Program {
        let mut program = program.clone();
        match self.clone() {
            Self::OnePass => program.passes = 1,
            Self::NoOptimizer => program.optimizer = Optimizer::None,
            Self::NoCheckpointing => program.checkpointing = false,
            Self::WithoutRoot(root) => drop(program.roots.remove(root)),
            Self::ReadNothing(steps) => unread(&mut program, steps),
            Self::Cut(steps) => {
                unread(&mut program, steps.clone());
                steps.for_each(|step| into_leaf(&mut program, step));
            }
            Self::Replace { step, by } => replace(&mut program, step, by),
            Self::UnderPolicy(step) => program.steps[step].full_precision = false,
            Self::OtherRoot { root, value } => program.roots[root] = value,
            Self::OtherKind { leaf, kind } => program.leaves[leaf].kind = kind,
            Self::Unscaled(leaf) => {
                program.leaves[leaf].scale = 1.0;
                program.leaves[leaf].offset = 0.0;
            }
            Self::Resize { from, to } => resize(&mut program, from, to),
        }
        program
    }
}

fn unread(program: &mut Program, steps: Range<usize>) {
    let steps = program.steps[steps].iter_mut();
    steps.for_each(|step| step.read = Read::Never);
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
