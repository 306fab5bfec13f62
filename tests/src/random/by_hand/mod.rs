//! A backend that rounds where the policy casts, op by op, and defers nothing: casts by hand.
//!
//! It is generated from the op table, as `Amp` is, and computes in F64 on Flex. Each tensor knows the dtype in which
//! the policy would store it. Before an op its operands are rounded to the dtype that [`Policy::casts`] gives them,
//! and afterwards the result, also if it is stored in F32: a program may compute nothing but rounding errors, such as
//! the gradient of `x / x`, and then those of F32 count. An op of class `low` adds up in low precision as Flex does: its
//! convolutions in F16 do. burn-amp remembers what a product, a softmax, a sigmoid or a tanh was before it was rounded, for readers
//! in F32; these read rounded values here, or by chance those. The errors of such runs say how far results in low precision may be off. Outside
//! [`rounding`] nothing is rounded, and the results are the exact ones.
//!
//! * `call`: one call of an op
//! * `rows`: the macros that write the method of a row
//! * `ops`: the methods
//! * `uses`: autodiff, which casts back the gradient of each use

mod call;
mod ops;
mod rows;
mod uses;

use std::{cell::RefCell, cmp::Ordering};

use burn_amp_core::{Policy, scalar};
use burn_amp_kernels::names::shape_of;
use burn_backend::{BackendTypes, DTypeUsageSet};

use crate::prelude::*;

use super::rng::Rng;

pub use uses::Uses;

/// How values are rounded on this thread.
pub struct Rounding {
    pub policy: Policy,
    /// Rounds to one of the two neighbours by chance; `None` rounds to the nearest.
    pub chance: Option<Chance>,
    /// Which ops round.
    pub scope: Scope,
    /// How each element compares with zero by which the program has divided, or whose angle it has taken.
    pub divisor_signs: Vec<Option<Ordering>>,
}

/// How chance decides.
#[derive(Clone, Debug)]
pub struct Chance {
    rng: Rng,
    /// Rounds equal values alike.
    alike: Option<u64>,
}

impl Chance {
    /// Rounds each value by itself: sums of equal terms in another order are not equal.
    pub fn each(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            alike: None,
        }
    }

    /// Rounds equal values alike, as casts do. A row of equal values stays one, of which a norm makes something else than
    /// of a row of noise.
    pub fn alike(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            alike: Some(seed),
        }
    }

    /// Whether a value is rounded up.
    fn is_up(&mut self, x: f64) -> bool {
        let bits = match self.alike {
            Some(seed) => Rng::new(seed ^ x.to_bits()).bits(),
            None => self.rng.bits(),
        };
        bits & 1 == 0
    }
}

/// Where in a program an op is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The policy decides.
    Forward,
    /// Inside `full_precision` and in the step of an optimizer, ops run in F32.
    Exact,
    /// A backward pass runs below the policy: in low precision where the forward pass did.
    Backward,
}

thread_local! {
    static ROUNDING: RefCell<Option<Rounding>> = const { RefCell::new(None) };
}

/// Runs a function in which ops round as given. Returns the signs of the divisors, too.
pub fn rounding<T>(rounding: Rounding, f: impl FnOnce() -> T) -> (T, Vec<Option<Ordering>>) {
    /// Ends the rounding, also after a panic.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            ROUNDING.take();
        }
    }

    ROUNDING.set(Some(rounding));
    let _end = End;
    let result = f();
    let rounding = ROUNDING.take();
    let signs = rounding.map_or(vec![], |rounding| rounding.divisor_signs);
    (result, signs)
}

/// Runs a function in another scope.
pub fn within<T>(scope: Scope, f: impl FnOnce() -> T) -> T {
    let set = |scope| {
        ROUNDING.with_borrow_mut(|rounding| match rounding {
            Some(rounding) => std::mem::replace(&mut rounding.scope, scope),
            None => scope,
        })
    };
    let before = set(scope);
    let result = f();
    set(before);
    result
}

/// The backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByHand;

/// A tensor in F64, with the dtype in which the policy would store it and the one that the program sees.
#[derive(Clone, Debug)]
pub struct Rounded {
    values: FloatTensor<Flex>,
    /// The values before they were rounded, if burn-amp has them for readers in F32.
    unrounded: Option<FloatTensor<Flex>>,
    stored: Precision,
    logical: Precision,
    known: Known,
}

/// What the policy knows about the values.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Nothing,
    /// Zeros and ones, which widen no factor in low precision.
    ZerosAndOnes,
    /// One number everywhere, which widens nothing that it is put beside.
    Filled,
}

impl TensorMetadata for Rounded {
    fn dtype(&self) -> DType {
        float(self.logical).into()
    }

    fn shape(&self) -> Shape {
        self.values.shape()
    }

    fn rank(&self) -> usize {
        self.values.rank()
    }

    #[cfg(burn_0_22)]
    type Device = <Flex as BackendTypes>::Device;

    #[cfg(burn_0_22)]
    fn device(&self) -> Self::Device {
        self.values.device()
    }

    #[cfg(burn_0_22)]
    fn can_mut(&self) -> bool {
        self.values.can_mut()
    }
}

impl BackendTypes for ByHand {
    type Device = <Flex as BackendTypes>::Device;
    type FloatTensorPrimitive = Rounded;
    type IntTensorPrimitive = IntTensor<Flex>;
    type BoolTensorPrimitive = BoolTensor<Flex>;
    type QuantizedTensorPrimitive = QuantizedTensor<Flex>;
    #[cfg(not(burn_0_22))]
    type FloatElem = f32;
    #[cfg(not(burn_0_22))]
    type IntElem = <Flex as BackendTypes>::IntElem;
    #[cfg(not(burn_0_22))]
    type BoolElem = <Flex as BackendTypes>::BoolElem;
    #[cfg(burn_0_22)]
    type GraphPrimitive = <Flex as BackendTypes>::GraphPrimitive;
}

impl Backend for ByHand {
    fn name(device: &Self::Device) -> String {
        format!("by hand<{}>", Flex::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        Flex::seed(device, seed)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        Flex::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        Flex::device_count(type_id)
    }

    #[cfg(burn_0_22)]
    fn flush(device: &Self::Device) -> Result<(), burn_backend::ExecutionError> {
        Flex::flush(device)
    }
}

/// With the provided methods: a program has one device.
#[cfg(burn_0_22)]
impl burn_backend::distributed::DistributedOps<Self> for ByHand {}

/// The dtype of the policy as Burn's.
fn float(dtype: Precision) -> FloatDType {
    match dtype {
        Precision::F64 => FloatDType::F64,
        Precision::F32 => FloatDType::F32,
        Precision::Flex32 => FloatDType::Flex32,
        Precision::F16 => FloatDType::F16,
        Precision::BF16 => FloatDType::BF16,
    }
}

/// Burn's dtype as the policy's.
fn precision(dtype: DType) -> Precision {
    let found = Precision::ALL
        .into_iter()
        .find(|p| DType::from(float(*p)) == dtype);
    found.expect("a float tensor has a float dtype")
}

impl Rounded {
    /// A tensor that an op on no float tensor has made.
    fn made(values: FloatTensor<Flex>, known: Known) -> Self {
        let logical = precision(values.dtype());
        Self {
            values: in_f64(values),
            unrounded: None,
            stored: logical,
            logical,
            known,
        }
    }

    /// The dtype in which the policy stores an F32 tensor in low precision.
    pub fn low(&self) -> Option<FloatDType> {
        (self.stored.is_low() && self.logical == Precision::F32).then(|| float(self.stored))
    }

    /// The values, rounded to `to` and to the dtype in which they are stored. In F32, they are by chance not rounded,
    /// if they are there: it depends on what is between an op and its reader whether burn-amp still has them.
    fn operand(self, to: Option<Precision>) -> FloatTensor<Flex> {
        match (to, self.unrounded) {
            (Some(to), _) if to.is_low() && to != self.stored => rounded(self.values, to),
            (Some(Precision::F32), Some(unrounded)) if by_chance() => unrounded,
            _ => self.values,
        }
    }
}

fn in_f64(values: FloatTensor<Flex>) -> FloatTensor<Flex> {
    if values.dtype() == DType::F64 {
        values
    } else {
        Flex::float_cast(values, FloatDType::F64)
    }
}

/// True in every other case; false where nothing is left to chance.
fn by_chance() -> bool {
    ROUNDING.with_borrow_mut(|rounding| {
        let chance = rounding
            .as_mut()
            .and_then(|rounding| rounding.chance.as_mut());
        chance.is_some_and(|chance| chance.rng.percent(50))
    })
}

/// Values as Flex stores them in a dtype.
fn stored_in(values: FloatTensor<Flex>, dtype: Precision) -> FloatTensor<Flex> {
    Flex::float_cast(values, float(dtype))
}

/// Rounds F64 values to a dtype.
fn rounded(values: FloatTensor<Flex>, to: Precision) -> FloatTensor<Flex> {
    ROUNDING.with_borrow_mut(|rounding| {
        let Some(Rounding { chance, .. }) = rounding else {
            return values;
        };
        let data = values.into_data();
        let (shape, values) = (shape_of(&data), data.iter::<f64>().collect::<Vec<_>>());
        let round = |x: f64, is_up: bool| {
            if is_up {
                scalar::ceil(x, to)
            } else {
                scalar::floor(x, to)
            }
        };
        let values: Vec<f64> = match chance {
            None => values.into_iter().map(|x| to.round(x)).collect(),
            Some(chance) => values
                .into_iter()
                .map(|x| round(x, chance.is_up(x)))
                .collect(),
        };
        Flex::float_from_data(TensorData::new(values, shape), &Default::default())
    })
}
