//! A step of training in a file, which `burn-amp replay` runs again.
//!
//! * [`Step`]: the calls of the step, and the tensors that entered it from outside
//! * [`Step::write`] and [`Step::read`]: the file, in the safetensors format
//! * [`Replayed`]: what came of running it again
//! * [`Comparison`]: what came of running each of its calls on two backends
//! * [`GradientRanges`]: how much of its gradients F16 loses
//! * [`RecipeLosses`]: what its products lose in formats of eight bits and fewer
//! * [`changes`]: what differs between two files
//!
//! A step is written by `burn-amp` and run by it; this crate knows the file and what to say about it.

mod beside;
mod difference;
mod distance;
mod file;
mod files;
mod gradients;
mod recipes;
mod replayed;
mod step_losses;
mod text;

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    Precision,
    overflow::{Cause, Range},
    report::Site,
};

pub use beside::{Beside, Distance};
pub use difference::{Compared, Comparison, TensorDifference};
pub use file::{Data, Dtype, ReadError, Sketch};
pub use files::{Change, changes};
pub use gradients::{GradientPair, GradientRange, GradientRanges};
pub use recipes::{Loss, LostNumbers, ProductLosses, RecipeLosses, decibels};
pub use replayed::{Form, Replayed, Same};
pub use step_losses::StepLosses;

/// A step of training: the calls since the backward pass before, and that of the loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The version of burn-amp that wrote it.
    pub burn_amp: String,
    /// The backend on which it ran.
    pub backend: String,
    /// The configuration in force, as an `amp.toml`.
    pub config: String,
    /// The factor on the loss; `None` if losses are not scaled.
    pub scale: Option<f32>,
    /// The op with which the overflow of the step began, if it overflowed.
    pub cause: Option<Cause>,
    /// The float tensors that no call of the step made.
    pub outside: Vec<Outside>,
    /// The calls in their order.
    pub calls: Vec<Call>,
    /// The tensor whose backward pass ends the step.
    pub loss: u64,
    /// What the tensors from outside, and integer and bool operands, are like: their dtypes, shapes and hashes.
    pub tensors: Vec<Sketch>,
    /// Their values; empty if these were left out.
    #[serde(skip)]
    pub data: Vec<Data>,
}

/// A float tensor that no call of the step made: a parameter, an input, a random tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// Its number in the calls.
    pub id: u64,
    /// Its place in [`Step::tensors`] and [`Step::data`].
    pub data: usize,
    /// The dtype that the program sees.
    pub logical: Precision,
    /// What burn-amp knows about it.
    pub nature: Nature,
    /// The path of a parameter, if it is known.
    pub parameter: Option<String>,
    /// Whether it is in a graph whose ops are not among the calls, so that no gradient passes it.
    pub is_cut: bool,
    /// The gradient that the backward pass left, of a leaf that has one.
    pub gradient: Option<Values>,
}

/// What burn-amp knows about a tensor from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// Nothing special.
    Plain,
    /// It requires a gradient itself.
    Leaf,
    /// A parameter that requires no gradient.
    Parameter,
    /// A gradient.
    Gradient,
    /// All values are 0 or 1.
    ZerosAndOnes,
    /// All values are the same number.
    Filled,
}

/// A call of an op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The name of the op.
    pub op: String,
    /// The line of the program that called it.
    pub site: Option<Site>,
    /// Whether it ran in a scope of full precision.
    pub full_precision: bool,
    /// Its arguments in their order.
    pub arguments: Vec<Argument>,
    /// Its float results in their order.
    pub results: Vec<Produced>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// A float tensor.
    Float(Use),
    /// Float tensors.
    Floats(Vec<Use>),
    /// An integer or bool tensor: its place in [`Step::tensors`] and [`Step::data`].
    Data(usize),
    /// A tensor that the op can do without.
    Absent,
    /// A number, a shape, options.
    Plain(serde_json::Value),
}

impl Argument {
    /// The float tensors in it.
    pub fn uses(&self) -> &[Use] {
        match self {
            Self::Float(operand) => std::slice::from_ref(operand),
            Self::Floats(operands) => operands,
            Self::Data(_) | Self::Absent | Self::Plain(_) => &[],
        }
    }
}

/// A float tensor as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Its number.
    pub id: u64,
    /// Whether the program held a clone of it during the call, if a graph takes that into account.
    pub is_shared: Option<bool>,
}

/// A float result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Produced {
    /// Its number.
    pub id: u64,
    /// Its values as they are stored; `None` if they had not been computed.
    pub values: Option<Values>,
}

/// What is kept of the values of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// The dtype in which they are stored.
    pub dtype: Precision,
    /// The shape.
    pub shape: Vec<usize>,
    /// Their range.
    pub range: Range,
    /// A hash of their bits; tensors with the same bits have the same.
    pub fingerprint: u64,
}

/// A hash, as that of FNV-1a, of numbers of 32 bits.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// A product moves no bit down, so the number is rotated.
    fn add(&mut self, bits: u64) {
        const PRIME: u64 = 0x100_0000_01b3;

        self.0 = (self.0 ^ bits).wrapping_mul(PRIME).rotate_left(23);
    }
}

impl Values {
    /// Looks at values, in the order of the elements.
    ///
    /// The fingerprint mixes the bits of each value in F64, in which every other dtype is exact, into one number. All NaN
    /// count as the same.
    pub fn of(dtype: Precision, shape: Vec<usize>, values: impl Iterator<Item = f64>) -> Self {
        let mut fingerprint = Fingerprint::default();
        let range = Range::of(values.inspect(|x| {
            let bits = if x.is_nan() { f64::NAN } else { *x }.to_bits();
            fingerprint.add(bits >> 32);
            fingerprint.add(bits & 0xffff_ffff);
        }));
        Self {
            dtype,
            shape,
            range,
            fingerprint: fingerprint.0,
        }
    }

    /// Whether two tensors have the same bits. The range does not count: JSON rounds its numbers.
    pub fn has_bits_of(&self, other: &Self) -> bool {
        (self.dtype, &self.shape, self.fingerprint)
            == (other.dtype, &other.shape, other.fingerprint)
    }
}

impl Step {
    /// Whether the values of tensors were written.
    pub fn has_values(&self) -> bool {
        self.data.len() == self.tensors.len()
    }

    /// Drops the calls on whose results neither the loss nor a result that is not finite depends, and the tensors and
    /// values that only they read.
    pub fn reduce(&mut self) {
        let mut needed = HashSet::from([self.loss]);
        let calls = std::mem::take(&mut self.calls);
        for call in calls.into_iter().rev() {
            let is_broken = |result: &Produced| {
                let values = result.values.as_ref();
                values.is_some_and(|values| !values.range.is_finite())
            };
            let is_needed = |result: &Produced| needed.contains(&result.id) || is_broken(result);
            if call.results.iter().any(is_needed) {
                needed.extend(call.uses().map(|operand| operand.id));
                self.calls.push(call);
            }
        }
        self.calls.reverse();
        self.outside.retain(|outside| needed.contains(&outside.id));
        self.renumber();
    }

    /// Keeps each different tensor of values that is referred to once.
    fn renumber(&mut self) {
        let old = std::mem::take(&mut self.data);
        let mut places: HashMap<usize, usize> = HashMap::new();
        let mut same: HashMap<&Data, usize> = HashMap::new();
        let mut kept = Vec::new();
        let mut place = |at: &mut usize| {
            *at = *places.entry(*at).or_insert_with(|| {
                *same.entry(&old[*at]).or_insert_with(|| {
                    kept.push(*at);
                    kept.len() - 1
                })
            });
        };
        for outside in &mut self.outside {
            place(&mut outside.data);
        }
        for argument in self.calls.iter_mut().flat_map(|call| &mut call.arguments) {
            if let Argument::Data(at) = argument {
                place(at);
            }
        }
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        self.data = kept.into_iter().filter_map(|at| old[at].take()).collect();
        self.tensors = self.data.iter().map(Data::sketch).collect();
    }
}

impl Call {
    /// The float tensors among the arguments.
    pub fn uses(&self) -> impl Iterator<Item = &Use> {
        self.arguments.iter().flat_map(Argument::uses)
    }
}
