//! Every kind of tensor, read in every way: what a tensor stands for must not show in what a program reads.
//!
//! The cells of the table are generated. The rows are the kinds of tensors ([`Kind::ALL`]; a new one does not compile
//! without a case in [`make`]), the columns are all ops with a class, at each of their float operands, and the
//! [`readers`] that are not ops. The oracle is the plain backend in F32. The sizes from which on tensors wait are lowered,
//! so that the small operands of the cases do.

mod make;
mod readers;

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Shape, TensorData};
use burn_amp::{
    config::Op,
    extend::{AmpTensor, Graph, Kind},
    thresholds,
};
use burn_amp_tests::{
    cases::{Case, Output, Setting},
    near::epsilon,
    *,
};
use burn_backend::{
    AutodiffBackend, Backend, TensorMetadata, ops::FloatTensorOps, read_sync, tensor::FloatTensor,
};

use super::laws::drive::is_driven;

/// A backend whose tensors may be of several kinds.
pub trait Kinds: Backend {
    /// The kind of a tensor; `None` on the plain backend.
    fn kind(tensor: &FloatTensor<Self>) -> Option<Kind>;
}

impl Kinds for Plain {
    fn kind(_: &FloatTensor<Self>) -> Option<Kind> {
        None
    }
}

impl Kinds for PlainAutodiff {
    fn kind(_: &FloatTensor<Self>) -> Option<Kind> {
        None
    }
}

impl<B: burn_amp::AmpBackend, P: ConfigSource, G: Graph<B>> Kinds for burn_amp::Amp<B, P, G> {
    fn kind(tensor: &AmpTensor<B, G>) -> Option<Kind> {
        Some(tensor.kind())
    }
}

/// A result, read to the host.
#[derive(Debug, PartialEq)]
pub struct Values {
    shape: Shape,
    values: Vec<f64>,
    is_gradient: bool,
}

/// The largest finite number of F16.
const LARGEST_F16: f64 = 65504.0;

/// The loss scale under F16.
const SCALE: f32 = 256.0;

impl Values {
    pub fn of(data: TensorData) -> Self {
        Self {
            shape: data.shape.clone(),
            values: data.iter::<f64>().collect(),
            is_gradient: false,
        }
    }

    /// A gradient that was read with `grad`, which is zeros if a gradient of the pass overflowed.
    pub fn gradient<B: Backend>(tensor: FloatTensor<B>) -> Self {
        Self {
            is_gradient: true,
            ..Self::float::<B>(tensor)
        }
    }

    pub fn float<B: Backend>(tensor: FloatTensor<B>) -> Self {
        Self::of(read_sync(B::float_into_data(tensor)).expect("the backend computes"))
    }

    /// The largest difference from `expected`, as a share of its largest value; infinite if the shapes differ. What leaves
    /// the range of F16 may be inf, and such a gradient, scaled, is withheld.
    pub fn error(&self, expected: &Self) -> f64 {
        if self.shape != expected.shape {
            return f64::INFINITY;
        }
        let overflows = |x: &f64| x.is_nan() || x.abs() * f64::from(SCALE) > LARGEST_F16;
        let is_withheld = self.is_gradient && self.values.iter().all(|x| *x == 0.0);
        if is_withheld && expected.values.iter().any(overflows) {
            return 0.0;
        }
        let finite = expected.values.iter().filter(|x| x.is_finite());
        let largest = finite.fold(f64::MIN_POSITIVE, |max, x| max.max(x.abs()));
        let errors = self.values.iter().zip(&expected.values);
        let errors = errors.map(|(found, expected)| {
            let is_out_of_range = !found.is_finite() && expected.abs() > LARGEST_F16;
            let is_equal = found == expected || found.is_nan() && expected.is_nan();
            match (found - expected).abs() / largest {
                _ if is_equal || is_out_of_range => 0.0,
                error if error.is_nan() => f64::INFINITY,
                error => error,
            }
        });
        errors.fold(0.0, f64::max)
    }
}

/// Says which of the results differ by more than a share of their largest value.
pub fn differences(found: &[Values], expected: &[Values], share: f64) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} results of {}", found.len(), expected.len()));
    }
    let pairs = found.iter().zip(expected).enumerate();
    let errors = pairs.map(|(at, (found, expected))| (at, found.error(expected)));
    let differ: Vec<_> = errors
        .filter(|(_, error)| *error > share)
        .map(|(at, error)| format!("result {at} of {} by {error:.4}", found.len()))
        .collect();
    (!differ.is_empty()).then(|| differ.join(", "))
}

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
        let tensor = B::InnerBackend::float_from_data(x.clone(), &Default::default());
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
        let x = B::float_set_require_grad(B::float_from_data(x, &Default::default()), true);
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

/// A sum of products with numbers that differ, so that each element has another gradient.
pub fn loss<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let shape = x.shape();
    let weights: Vec<f32> = (0..shape.num_elements())
        .map(|i| (i % 7) as f32 / 4.0 - 0.5)
        .collect();
    let weights = B::float_from_data(TensorData::new(weights, shape), &Default::default());
    B::float_sum(B::float_mul(x, weights))
}

/// The parts of the table, and on which backends they run.
type Part = fn(Cell) -> Option<(Vec<Values>, Option<Kind>)>;

/// Compares all cells of some kinds; returns the number of cells of each kind.
fn compare<P: ConfigSource>(kinds: &[Kind], amp: Part, plain: Part) {
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
                        let share = 8.0 * f64::from(epsilon::<P>());
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

policy!(
    /// F16 with a loss scale that stays: some of the gradients are not finite, on the plain backend too.
    InF16,
    Config {
        loss_scale: LossScaleConfig {
            rule: DynamicLossScale {
                init: SCALE,
                ..DynamicLossScale::default()
            },
            ..scaling(Compute::F16, LossScaleMode::Static).loss_scale
        },
        ..computing_in(Compute::F16)
    }
);

/// Whether there are tensors of a kind under a policy.
fn exists<P: ConfigSource>(kind: Kind) -> bool {
    let is_f16 = P::config().expect("the tests' policies are valid").compute == Compute::F16;
    match kind {
        // Only products in F16 overflow, and only F16 has a loss scale.
        Kind::Product | Kind::Pending => is_f16,
        // Without loss scaling.
        Kind::Gradient => !is_f16,
        _ => true,
    }
}

fn every_op_reads_every_kind<P: ConfigSource>() {
    let all = Kind::ALL.iter().copied().filter(|kind| exists::<P>(*kind));
    let is_outside = |kind: &Kind| matches!(kind, Kind::Parameter | Kind::Gradient | Kind::Pending);
    let in_graphs: Vec<_> = all.clone().filter(|kind| !is_outside(kind)).collect();
    let outside_of: Vec<_> = all.filter(|kind| *kind != Kind::Leaf).collect();
    compare::<P>(
        &outside_of,
        outside::<AmpAutodiff<P>>,
        outside::<PlainAutodiff>,
    );
    compare::<P>(
        &in_graphs,
        in_graph::<AmpAutodiff<P>>,
        in_graph::<PlainAutodiff>,
    );
}

#[test]
fn every_op_reads_the_values_of_every_kind() {
    #[cfg(not(feature = "vulkan"))]
    every_op_reads_every_kind::<InBf16>();
    every_op_reads_every_kind::<InF16>();
}
