//! Calls of an op in a report: their dtypes, the reason for them, and their casts.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::{Site, place};
use crate::{Op, Precision};

/// Calls of an op at one place, with the same dtypes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// The name of the op, for example `float_matmul`; `custom` for an op that is not in the table.
    pub op: String,
    /// The line of the program that called the op, if the program was built with line tables.
    pub site: Option<Site>,
    /// The dtypes in which the float operands were stored.
    pub operands: Vec<Precision>,
    /// The dtype in which the op computed.
    pub computed_in: Precision,
    /// The dtype in which the result was stored; `None` if it is no float tensor.
    pub result: Option<Precision>,
    /// Why the op computed in that dtype.
    pub why: Why,
    /// Whether an operand is a softmax, a sigmoid or a tanh that is stored in half precision.
    pub reads_rounded: bool,
    /// Whether an operand was cast after it had been expanded.
    #[serde(default)]
    pub casts_expanded: bool,
    /// The number of calls in all steps.
    pub count: u64,
    /// The casts that were made for these calls.
    pub casts: Vec<Casting>,
    /// The floating-point operations of matrix products, convolutions and attention in all calls; 0 for other ops.
    pub flops: u64,
    /// The bytes of operands and results as they are stored, in all calls that computed their results: some wait for the
    /// op that reads them.
    pub bytes: u64,
    /// The shapes of the float operands of the call with the largest operands.
    pub shapes: Vec<Vec<usize>>,
}

/// Casts of operands or results from one dtype to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Casting {
    /// The dtype before.
    pub from: Precision,
    /// The dtype after.
    pub to: Precision,
    /// The number of casts that a kernel was launched for.
    pub made: u64,
    /// The number of casts that were found done: a parameter or an activation is cast once for all its uses.
    pub shared: u64,
    /// The bytes that the casts read and wrote.
    pub bytes: u64,
    /// What became of a sample of the values.
    #[serde(default)]
    pub sample: Sample,
}

/// What became of some values in a cast to half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The number of values that were looked at; 0 without [`samples`](crate::ReportConfig::samples).
    pub values: u64,
    /// Those of them that were finite and are beyond the dtype.
    pub overflowed: u64,
    /// Those of them that were not 0 and are now.
    pub flushed: u64,
}

impl Sample {
    /// Looks at values that are cast to `to`.
    pub fn of(values: impl IntoIterator<Item = f64>, to: Precision) -> Self {
        let mut sample = Self::default();
        for x in values {
            let rounded = to.round(x);
            sample.values += 1;
            sample.overflowed += u64::from(x.is_finite() && rounded.is_infinite());
            sample.flushed += u64::from(x != 0.0 && rounded == 0.0);
        }
        sample
    }

    /// The number of values that were lost.
    pub fn lost(&self) -> u64 {
        self.overflowed + self.flushed
    }
}

impl std::ops::AddAssign for Sample {
    fn add_assign(&mut self, other: Self) {
        let Self {
            values,
            overflowed,
            flushed,
        } = other;
        self.values += values;
        self.overflowed += overflowed;
        self.flushed += flushed;
    }
}

/// Why an op computed in a dtype.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The cast class of the op, by its name.
    Class(String),
    /// An operand is a gradient, or computed from one: ops on gradients run in F32.
    Gradient,
    /// All operands are parameters outside a graph, as in an optimizer's decay of weights.
    Parameters,
    /// The call is inside `full_precision`.
    FullPrecision,
    /// The compute dtype would turn a scalar operand into 0, 1 or infinity.
    Scalar,
    /// An operand was stored in a wider dtype, and the others were promoted to it.
    Promoted,
    /// The op runs in the dtype of its operands.
    #[default]
    Operands,
}

impl Calls {
    /// No call yet of an op with these dtypes.
    pub fn new(op: &str, operands: Vec<Precision>, computed_in: Precision, why: Why) -> Self {
        Self {
            op: op.into(),
            site: None,
            operands,
            computed_in,
            result: Some(computed_in),
            why,
            reads_rounded: false,
            casts_expanded: false,
            count: 0,
            casts: Vec::new(),
            flops: 0,
            bytes: 0,
            shapes: Vec::new(),
        }
    }

    /// Whether the two are calls of the same op at the same place, in the same dtypes and for the same reason.
    pub fn is_like(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }

    /// By place, op, dtypes and reason.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let by_place = (&self.site, &self.op).cmp(&(&other.site, &other.op));
        let of_dtypes = (&self.operands, self.computed_in, self.result);
        by_place
            .then_with(|| of_dtypes.cmp(&(&other.operands, other.computed_in, other.result)))
            .then_with(|| self.why.cmp(&other.why))
    }

    /// The dtypes in words: `f32, bf16 -> bf16`, or `bf16 -> f32 -> bf16` if the result is stored in another dtype than
    /// the op computes in.
    pub(crate) fn dtypes(&self) -> String {
        let mut operands: Vec<_> = self.operands.iter().map(|dtype| dtype.name()).collect();
        // A long list, as that of a concatenation, is told by its kinds.
        if operands.len() > 4 {
            operands.sort_unstable();
            operands.dedup();
        }
        let operands = match operands[..] {
            [] => "no float".into(),
            _ => operands.join(", "),
        };
        match self.result {
            Some(result) if result != self.computed_in => {
                format!("{operands} -> {} -> {result}", self.computed_in)
            }
            Some(_) | None => format!("{operands} -> {}", self.computed_in),
        }
    }

    /// The shapes in words: `[32, 784] [784, 128]`.
    pub(crate) fn shapes_in_words(&self) -> String {
        let shapes: Vec<_> = self
            .shapes
            .iter()
            .map(|shape| format!("{shape:?}"))
            .collect();
        match shapes.len() {
            0..=3 => shapes.join(" "),
            more => format!("{} … {more} operands", shapes[..2].join(" ")),
        }
    }

    /// The place in words: `src/model.rs:31`, or `?`.
    pub(crate) fn place(&self) -> String {
        place(&self.site)
    }

    /// The sizes of a matrix product that keep tensor cores idle, if there are any: those that are no multiple of 8.
    ///
    /// NVIDIA, Matrix Multiplication Background User's Guide, "Tensor Core Requirements": 16 bytes, which are 8 numbers
    /// in half precision.
    pub fn idle_dimensions(&self) -> Vec<(&'static str, usize)> {
        const NUMBERS: usize = 8;

        if !self.computed_in.is_low() {
            return Vec::new();
        }
        let dimensions = match (self.op.parse(), &self.shapes[..]) {
            (Ok(Op::float_matmul), [lhs, rhs, ..]) => match (&lhs[..], &rhs[..]) {
                ([.., m, k], [.., n]) => vec![("m", *m), ("k", *k), ("n", *n)],
                _ => Vec::new(),
            },
            // The rows of all dimensions are one matrix.
            (Ok(Op::linear), [x, weight, ..]) => match (&x[..], &weight[..]) {
                ([rows @ .., k], [.., n]) => {
                    vec![("m", rows.iter().product()), ("k", *k), ("n", *n)]
                }
                _ => Vec::new(),
            },
            (Ok(Op::conv1d | Op::conv2d | Op::conv3d), [_, weight, ..]) => match weight[..] {
                [outputs, inputs, ..] => vec![("channels in", inputs), ("channels out", outputs)],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let is_idle = |(_, size): &(&str, usize)| size % NUMBERS != 0;
        dimensions.into_iter().filter(is_idle).collect()
    }
}

impl Why {
    /// Whether the op is one of an optimizer's step, as far as one can tell by its operands.
    pub fn is_of_optimizer(&self) -> bool {
        matches!(self, Self::Gradient | Self::Parameters)
    }

    /// The reason in words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Class(class) => format!("class {class}"),
            Self::Gradient => "an operand is a gradient".into(),
            Self::Parameters => "the operands are parameters outside a graph".into(),
            Self::FullPrecision => "inside full_precision".into(),
            Self::Scalar => "a scalar would be lost".into(),
            Self::Promoted => "an operand is wider".into(),
            Self::Operands => "as its operands".into(),
        }
    }
}
