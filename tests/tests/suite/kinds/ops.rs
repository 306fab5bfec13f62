//! All ops with a class, as readers of each kind of tensor.

use burn_amp::{extend::Kind, thresholds};
use burn_amp_tests::{
    cases::{Case, Output, Setting},
    prelude::*,
};

use super::{super::laws::drive::is_driven, InF16, Kinds, Values, differences, exists, loss, make};

/// Where the tensor is read: the float operand of this number of an op.
#[derive(Clone, Copy)]
struct Cell {
    kind: Kind,
    op: Op,
    operand: usize,
}

/// The results of an op on operands of which one is of a kind, and whether it is.
fn results<B: Kinds>(
    cell: Cell,
    operand: impl Fn(TensorData) -> Option<FloatTensor<B>>,
) -> Option<(Vec<Output<B>>, Option<Kind>)> {
    let case = Case::<B>::of(cell.op)?;
    let setting = Setting::default();
    let mut kind = None;
    let operands = case.operands.iter().enumerate().map(|(at, x)| {
        if at != cell.operand {
            return Some(B::float_from_data(x.data(), &setting.device));
        }
        let tensor = operand(x.data())?;
        kind = B::kind(&tensor);
        Some(tensor)
    });
    let operands = operands.collect::<Option<Vec<_>>>()?;
    Some((case.run(operands, &setting), kind))
}

fn read<B: Backend>(outputs: Vec<Output<B>>) -> Vec<Values> {
    let outputs = outputs.into_iter().map(|output| match output {
        Output::Float(x) => Values::float::<B>(x),
        Output::Int(x) => Values::of(read_sync(B::int_into_data(x)).expect("the backend computes")),
        Output::Bool(x) => {
            Values::of(read_sync(B::bool_into_data(x)).expect("the backend computes"))
        }
        Output::Quantized(x) => {
            let dtype = burn_backend::FloatDType::F32;
            Values::float::<B>(B::dequantize(x, dtype))
        }
    });
    outputs.collect()
}

/// Outside of a graph: the results of the op.
fn outside<B>(cell: Cell) -> Option<(Vec<Values>, Option<Kind>)>
where
    B: AutodiffBackend<InnerBackend: Kinds>,
{
    let (results, kind) = results::<B::InnerBackend>(cell, |x| {
        let tensor = B::InnerBackend::float_from_data(x.clone(), &here());
        make::made::<B::InnerBackend>(cell.kind, tensor)
            .or_else(|| make::made_outside::<B>(cell.kind, x))
    })?;
    Some((read(results), kind))
}

/// In a graph: the results of the op, and the gradient of the tensor that the operand was made of.
fn in_graph<B: AutodiffBackend + Kinds>(cell: Cell) -> Option<(Vec<Values>, Option<Kind>)> {
    let mut leaf = None;
    let leaf_of = std::cell::RefCell::new(&mut leaf);
    let (outputs, kind) = results::<B>(cell, |x| {
        let x = B::float_set_require_grad(B::float_from_data(x, &here()), true);
        **leaf_of.borrow_mut() = Some(x.clone());
        make::made::<B>(cell.kind, x)
    })?;
    let losses = outputs.iter().filter_map(|output| match output {
        Output::Float(x) => Some(loss::<B>(x.clone())),
        Output::Int(_) | Output::Bool(_) | Output::Quantized(_) => None,
    });
    let loss = losses.reduce(B::float_add)?;
    let mut values = read(outputs);
    if let Some(gradient) = B::grad(&leaf?, &B::backward(loss)) {
        values.push(Values::gradient::<B::InnerBackend>(gradient));
    }
    Some((values, kind))
}

/// The parts of the table, and on which backends they run.
type Part = fn(Cell) -> Option<(Vec<Values>, Option<Kind>)>;

/// Compares all cells of some kinds; returns the number of cells of each kind.
fn compare(kinds: &[Kind], amp: Part, plain: Part) {
    let _lowered = thresholds::lower();
    let mut failures = Vec::new();
    for kind in kinds {
        let mut cells = 0;
        for op in Op::ALL.iter().filter(|op| is_driven(**op)) {
            let operands = Case::<Plain>::of(*op).map_or(0, |case| case.operands.len());
            for operand in 0..operands {
                let cell = Cell {
                    kind: *kind,
                    op: *op,
                    operand,
                };
                // Ops that the plain backend cannot record, or of operands that the kind cannot have.
                let Ok(Some((expected, _))) = catch_unwind(|| plain(cell)) else {
                    continue;
                };
                let what = format!("{kind:?} as operand {operand} of {op}");
                match catch_unwind(AssertUnwindSafe(|| amp(cell))) {
                    Ok(Some((_, of))) if of != Some(*kind) => {}
                    Ok(Some((found, _))) => {
                        cells += 1;
                        // Values that are exact in every dtype, but for those of the functions that make some kinds:
                        // they, the casts of the op's operands and its result are rounded.
                        let share = 8.0 * f64::from(epsilon());
                        if let Some(differ) = differences(&found, &expected, share) {
                            failures.push(format!("{what}: {differ}"));
                        }
                    }
                    Ok(None) => failures.push(format!("{what}: no gradient")),
                    Err(_) => failures.push(format!("{what}: panics")),
                }
            }
        }
        println!("{kind:?}: {cells} cells");
        if cells < 50 {
            failures.push(format!("{kind:?} has {cells} cells"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} cells differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn every_op_reads_every_kind() {
    let all = Kind::ALL.iter().copied().filter(|kind| exists(*kind));
    let is_outside = |kind: &Kind| matches!(kind, Kind::Parameter | Kind::Gradient | Kind::Pending);
    let in_graphs: Vec<_> = all.clone().filter(|kind| !is_outside(kind)).collect();
    let outside_of: Vec<_> = all.filter(|kind| *kind != Kind::Leaf).collect();
    compare(
        &outside_of,
        outside::<AmpAutodiff>,
        outside::<PlainAutodiff>,
    );
    compare(
        &in_graphs,
        in_graph::<AmpAutodiff>,
        in_graph::<PlainAutodiff>,
    );
}

#[test]
fn every_op_reads_the_values_of_every_kind() {
    under_each!(every_op_reads_every_kind, InBf16, InF16);
}
