//! A backend that rounds where the policy casts, op by op, and defers nothing: casts by hand.
//!
//! It is generated from the op table, as `Amp` is, and computes in F64 on Flex. Each tensor knows the dtype in which the
//! policy would store it. Before an op its operands are rounded to the dtype that [`Policy::casts`] gives them, and
//! afterwards the result. The errors of such runs say how far results in low precision may be off. Outside [`rounding`]
//! nothing is rounded, and the results are the exact ones.

use std::{cell::RefCell, ops::Range};

use burn::backend::Flex;
use burn_amp_core::{
    Casts, Class, Op, Operands, Policy, Precision, activation_ops, bool_tensor_ops,
    float_tensor_ops, int_tensor_ops, module_ops, q_tensor_ops, scalar,
};
use burn_backend::{
    Backend, BackendTypes, BoolDType, DType, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

use super::rng::Rng;

/// How values are rounded on this thread.
pub struct Rounding {
    pub policy: Policy,
    /// Rounds to one of the two neighbours by chance; `None` rounds to the nearest.
    pub chance: Option<Rng>,
    /// Which ops round.
    pub scope: Scope,
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

/// Runs a function in which ops round as given.
pub fn rounding<T>(rounding: Rounding, f: impl FnOnce() -> T) -> T {
    /// Ends the rounding, also after a panic.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            ROUNDING.take();
        }
    }

    ROUNDING.set(Some(rounding));
    let _end = End;
    f()
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
}

impl BackendTypes for ByHand {
    type Device = <Flex as BackendTypes>::Device;
    type FloatTensorPrimitive = Rounded;
    type FloatElem = f32;
    type IntTensorPrimitive = IntTensor<Flex>;
    type IntElem = <Flex as BackendTypes>::IntElem;
    type BoolTensorPrimitive = BoolTensor<Flex>;
    type BoolElem = <Flex as BackendTypes>::BoolElem;
    type QuantizedTensorPrimitive = QuantizedTensor<Flex>;
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
}

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
            stored: logical,
            logical,
            known,
        }
    }

    /// The dtype in which the policy stores an F32 tensor in low precision.
    pub fn low(&self) -> Option<FloatDType> {
        (self.stored.is_low() && self.logical == Precision::F32).then(|| float(self.stored))
    }

    /// The values, rounded to `to` and to the dtype in which they are stored.
    fn operand(self, to: Option<Precision>) -> FloatTensor<Flex> {
        match to {
            Some(to) if to.is_low() && to != self.stored => rounded(self.values, to),
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

/// Rounds F64 values to a dtype in low precision.
fn rounded(values: FloatTensor<Flex>, to: Precision) -> FloatTensor<Flex> {
    ROUNDING.with_borrow_mut(|rounding| {
        let Some(Rounding { chance, .. }) = rounding else {
            return values;
        };
        let data = values.into_data();
        let (shape, values) = (data.shape.clone(), data.into_vec::<f64>().expect("F64"));
        let round = |x: f64, is_up: bool| {
            if is_up {
                scalar::ceil(x, to)
            } else {
                scalar::floor(x, to)
            }
        };
        let values: Vec<f64> = match chance {
            None => values.into_iter().map(|x| to.round(x)).collect(),
            Some(rng) => values
                .into_iter()
                .map(|x| round(x, rng.bits() & 1 == 0))
                .collect(),
        };
        Flex::float_from_data(TensorData::new(values, shape), &Default::default())
    })
}

/// A call of an op: what the policy needs to know about the operands.
struct Call {
    op: Op,
    operands: Operands,
    scalars: Vec<f64>,
    /// The operand that the others do not count beside, by its dtypes.
    aside: Vec<(Precision, Precision, Known, usize)>,
    largest: usize,
}

impl Call {
    fn new(op: Op) -> Self {
        Self {
            op,
            operands: Operands::default(),
            scalars: vec![],
            aside: vec![],
            largest: 0,
        }
    }

    fn float(&mut self, x: &Rounded) {
        let elements = x.shape().num_elements();
        self.largest = self.largest.max(elements);
        self.aside.push((x.stored, x.logical, x.known, elements));
    }

    fn casts(mut self) -> (Casts, Precision, Precision) {
        let arithmetic =
            [Op::float_add, Op::float_sub, Op::float_mul, Op::float_div].contains(&self.op);
        let moves =
            [Op::float_cat, Op::float_slice_assign, Op::float_mask_where].contains(&self.op);
        let is_aside = |(stored, _, known, elements): &(Precision, Precision, Known, usize)| {
            *stored == Precision::F32
                && match known {
                    Known::ZerosAndOnes => self.op == Op::float_mul,
                    Known::Filled => moves,
                    Known::Nothing => arithmetic && *elements == 1 && self.largest > 1,
                }
        };
        let (aside, others): (Vec<_>, Vec<_>) = self.aside.drain(..).partition(is_aside);
        let mut operands = self.operands;
        for (stored, logical, ..) in &others {
            operands = operands.and(*stored, *logical);
        }
        for (stored, logical, known, _) in aside {
            operands = match (known, operands.widest) {
                (Known::Nothing, Some(widest)) if widest.is_low() => {
                    operands.and_one_element(logical)
                }
                (Known::Nothing, _) => operands.and(stored, logical),
                _ => operands.and_zeros_and_ones(stored, logical),
            };
        }
        ROUNDING.with_borrow(|rounding| {
            let widest = operands.widest.unwrap_or(Precision::F32);
            let logical = operands.logical.unwrap_or(widest);
            let Some(Rounding { policy, scope, .. }) = rounding else {
                return (operands.promoted(), widest, logical);
            };
            if *scope == Scope::Backward && policy.class(self.op) != Some(Class::Low) {
                return (operands.promoted(), widest, logical);
            }
            operands.exact = *scope == Scope::Exact;
            if let Some(dtype) = operands.widest.filter(|dtype| dtype.is_low()) {
                operands.guarded = self.scalars.iter().any(|x| match self.op {
                    Op::float_div_scalar => scalar::is_lost_divisor(*x, dtype),
                    Op::float_equal_elem | Op::float_not_equal_elem => {
                        scalar::is_rounded(*x, dtype)
                    }
                    _ => scalar::is_lost(*x, dtype),
                });
            }
            let casts = policy.casts(self.op, operands);
            let stored = casts.results.or(casts.operands).unwrap_or(widest);
            (casts, stored, casts.logical.unwrap_or(stored))
        })
    }
}

/// The result of an op, stored in low precision if the policy does.
fn result(values: FloatTensor<Flex>, stored: Precision, logical: Precision) -> Rounded {
    let values = in_f64(values);
    let values = if stored.is_low() {
        rounded(values, stored)
    } else {
        values
    };
    Rounded {
        values,
        stored,
        logical,
        known: Known::Nothing,
    }
}

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! by_hand {
    // These make tensors, set the dtype, or are about the graph; their methods are written out.
    (float_from_data $($row:tt)*) => {};
    (float_random $($row:tt)*) => {};
    (float_zeros $($row:tt)*) => {};
    (float_ones $($row:tt)*) => {};
    (float_full $($row:tt)*) => {};
    (float_empty $($row:tt)*) => {};
    (float_into_data $($row:tt)*) => {};
    (float_to_device $($row:tt)*) => {};
    (float_cast $($row:tt)*) => {};
    (float_detach $($row:tt)*) => {};
    (float_set_require_grad $($row:tt)*) => {};
    (int_into_float $($row:tt)*) => {};
    (bool_into_float $($row:tt)*) => {};
    (dequantize $($row:tt)*) => {};
    // No program calls ops on quantized tensors.
    (q_matmul $($row:tt)*) => {};
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            #[allow(unused_mut, reason = "not every op has float operands")]
            let mut call = Call::new(Op::$op);
            $(look!(call, $kind, $x);)*
            #[allow(unused_variables, reason = "not every op has float operands or results")]
            let (casts, stored, logical) = call.casts();
            wrapped!($result, Flex::$op($(operand!($kind, $x, casts)),*)$(.$await)?, stored, logical)
        }
    };
}

/// Shows an operand to the call. A macro, because the kind of an operand is a word of the table.
macro_rules! look {
    ($call:ident, [F], $x:ident) => {
        $call.float(&$x)
    };
    ($call:ident, [&F], $x:ident) => {
        $call.float($x)
    };
    ($call:ident, [Option<F>], $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($call:ident, [Vec<F>], $x:ident) => {
        $x.iter().for_each(|x| $call.float(x))
    };
    ($call:ident, [Scalar], $x:ident) => {
        $call.scalars.push($x.elem())
    };
    ($call:ident, $kind:tt, $x:ident) => {};
}

/// Converts an operand to what Flex expects. A macro for the same reason as [`look!`].
macro_rules! operand {
    ([F], $x:ident, $casts:ident) => {
        $x.operand($casts.operands)
    };
    ([&F], $x:ident, $casts:ident) => {
        &$x.values
    };
    ([Option<F>], $x:ident, $casts:ident) => {
        $x.map(|x| x.operand($casts.operands))
    };
    ([Vec<F>], $x:ident, $casts:ident) => {
        $x.into_iter().map(|x| x.operand($casts.operands)).collect()
    };
    ([QuantizationParametersPrimitive], $x:ident, $casts:ident) => {
        QuantizationParametersPrimitive {
            scales: $x.scales.values,
        }
    };
    ($kind:tt, $x:ident, $casts:ident) => {
        $x
    };
}

/// Converts a result of Flex. A macro for the same reason as [`look!`].
macro_rules! wrapped {
    ([F], $result:expr, $stored:ident, $logical:ident) => {
        result($result, $stored, $logical)
    };
    ([Wide], $result:expr, $stored:ident, $logical:ident) => {
        result($result, $stored.join(Precision::F32), $logical)
    };
    ([(F,I)], $result:expr, $stored:ident, $logical:ident) => {{
        let (values, indices) = $result;
        (result(values, $stored, $logical), indices)
    }};
    ([(F,F)], $result:expr, $stored:ident, $logical:ident) => {{
        let (first, second) = $result;
        (
            result(first, $stored, $logical),
            result(second, $stored, $logical),
        )
    }};
    ([Primitive], $result:expr, $stored:ident, $logical:ident) => {
        match $result {
            TensorPrimitive::Float(tensor) => {
                TensorPrimitive::Float(Rounded::made(tensor, Known::Nothing))
            }
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ([DeformConv2dBackward], $result:expr, $stored:ident, $logical:ident) => {{
        let grads = $result;
        DeformConv2dBackward::new(
            result(grads.x_grad, $stored, $logical),
            result(grads.offset_grad, $stored, $logical),
            result(grads.weight_grad, $stored, $logical),
            grads.mask_grad.map(|x| result(x, $stored, $logical)),
            grads.bias_grad.map(|x| result(x, $stored, $logical)),
        )
    }};
    ([MaxPool1dBackward], $result:expr, $stored:ident, $logical:ident) => {
        MaxPool1dBackward::new(result($result.x_grad, $stored, $logical))
    };
    ([MaxPool1dWithIndices], $result:expr, $stored:ident, $logical:ident) => {{
        let pooled = $result;
        MaxPool1dWithIndices::new(result(pooled.output, $stored, $logical), pooled.indices)
    }};
    ([MaxPool2dBackward], $result:expr, $stored:ident, $logical:ident) => {
        MaxPool2dBackward::new(result($result.x_grad, $stored, $logical))
    };
    ([MaxPool2dWithIndices], $result:expr, $stored:ident, $logical:ident) => {{
        let pooled = $result;
        MaxPool2dWithIndices::new(result(pooled.output, $stored, $logical), pooled.indices)
    }};
    ($kind:tt, $result:expr, $stored:ident, $logical:ident) => {
        $result
    };
}

impl FloatTensorOps<Self> for ByHand {
    float_tensor_ops! { by_hand! }

    fn float_from_data(data: TensorData, device: &Device<Self>) -> Rounded {
        Rounded::made(Flex::float_from_data(data, device), Known::Nothing)
    }

    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Self>,
        dtype: FloatDType,
    ) -> Rounded {
        let known = match distribution {
            Distribution::Bernoulli(_) => Known::ZerosAndOnes,
            _ => Known::Nothing,
        };
        Rounded::made(
            Flex::float_random(shape, distribution, device, dtype),
            known,
        )
    }

    fn float_zeros(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::float_zeros(shape, device, dtype), Known::Filled)
    }

    fn float_ones(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::float_ones(shape, device, dtype), Known::Filled)
    }

    fn float_full(
        shape: Shape,
        value: Scalar,
        device: &Device<Self>,
        dtype: FloatDType,
    ) -> Rounded {
        Rounded::made(
            Flex::float_full(shape, value, device, dtype),
            Known::Nothing,
        )
    }

    fn float_empty(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::float_zeros(shape, device, dtype), Known::Filled)
    }

    async fn float_into_data(tensor: Rounded) -> Result<TensorData, ExecutionError> {
        Ok(tensor.values.into_data())
    }

    fn float_to_device(tensor: Rounded, _device: &Device<Self>) -> Rounded {
        tensor
    }

    fn float_detach(tensor: Rounded) -> Rounded {
        tensor
    }

    fn float_set_require_grad(tensor: Rounded, _require_grad: bool) -> Rounded {
        tensor
    }

    fn float_cast(tensor: Rounded, dtype: FloatDType) -> Rounded {
        let to = precision(dtype.into());
        // A tensor in low precision is stored as it was; an op that needs F32 reads the same values in F32.
        let stored = match to {
            Precision::F32 => tensor.stored,
            to => to,
        };
        Rounded {
            values: tensor.operand(Some(to)),
            stored,
            logical: to,
            known: Known::Nothing,
        }
    }
}

impl IntTensorOps<Self> for ByHand {
    int_tensor_ops! { by_hand! }

    fn int_into_float(tensor: IntTensor<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::int_into_float(tensor, dtype), Known::Nothing)
    }
}

impl BoolTensorOps<Self> for ByHand {
    bool_tensor_ops! { by_hand! }

    fn bool_into_float(tensor: BoolTensor<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::bool_into_float(tensor, dtype), Known::Nothing)
    }
}

impl ModuleOps<Self> for ByHand {
    module_ops! { by_hand! }
}

impl ActivationOps<Self> for ByHand {
    activation_ops! { by_hand! }
}

impl QTensorOps<Self> for ByHand {
    q_tensor_ops! { by_hand! }

    fn dequantize(tensor: QuantizedTensor<Self>, dtype: FloatDType) -> Rounded {
        Rounded::made(Flex::dequantize(tensor, dtype), Known::Nothing)
    }
}

impl TransactionOps<Self> for ByHand {}
