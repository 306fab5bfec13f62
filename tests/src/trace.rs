//! A backend that records which op ran on which float dtypes; generated from the same table as `Amp`.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use burn_amp_core::{
    Op, Precision, activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops,
    q_tensor_ops, transaction_ops,
};
use burn_backend::{
    Backend, BackendTypes, BoolDType, DType, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

thread_local! {
    static CALLS: RefCell<Vec<(Op, Vec<DType>)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` and returns the casts, and the calls of ops with a class, that it made on a `Trace` backend on this thread.
pub fn calls(f: impl FnOnce()) -> Vec<(Op, Vec<DType>)> {
    CALLS.take();
    f();
    CALLS.take()
}

fn record(op: Op, dtypes: Vec<DType>) {
    if op == Op::float_cast || op.class(Precision::F16).is_some() {
        CALLS.with_borrow_mut(|calls| calls.push((op, dtypes)));
    }
}

/// Records casts and every call of an op with a class, and lets `B` compute them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace<B>(PhantomData<B>);

impl<B: Backend> BackendTypes for Trace<B> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type FloatElem = B::FloatElem;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type IntElem = B::IntElem;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type BoolElem = B::BoolElem;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
}

/// With this empty `impl`, the backend uses burn-amp's reference code instead of its kernels.
impl<B: Backend> burn_amp::AmpBackend for Trace<B> {}

impl<B: Backend> Backend for Trace<B> {
    fn name(device: &Self::Device) -> String {
        format!("trace<{}>", B::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }
}

/// Writes the recording method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! recorded {
    // Burn composes these of other ops by default; no method is written for them, so that the tests see the parts.
    (gelu $($row:tt)*) => {};
    (softmax $($row:tt)*) => {};
    (log_softmax $($row:tt)*) => {};
    (layer_norm $($row:tt)*) => {};
    (q_matmul $($row:tt)*) => {};
    (tr_execute $($row:tt)*) => {};
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            record(Op::$op, std::iter::empty() $(.chain(dtypes!($kind, $x)))* .collect());
            renamed!($result, B::$op($(inner!($kind, $x)),*)$(.$await)?)
        }
    };
}

/// The float dtypes of an operand. A macro, because the kind of an operand is a word of the table.
macro_rules! dtypes {
    ([F], $x:ident) => {
        [$x.dtype()]
    };
    ([Option<F>], $x:ident) => {
        $x.as_ref().map(|x| x.dtype())
    };
    ([Vec<F>], $x:ident) => {
        $x.iter().map(|x| x.dtype())
    };
    ([FloatDType], $x:ident) => {
        [DType::from($x)]
    };
    ($kind:tt, $x:ident) => {
        None
    };
}

/// Converts an operand to the type that the inner backend expects. A macro for the same reason as [`dtypes!`].
macro_rules! inner {
    ([QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive { scales: $x.scales }
    };
    ($kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the inner backend to the type of its decorator. A macro for the same reason as [`dtypes!`].
macro_rules! renamed {
    ([Primitive], $result:expr) => {
        match $result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(tensor),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ([DeformConv2dBackward], $result:expr) => {{
        let grads = $result;
        DeformConv2dBackward::new(
            grads.x_grad,
            grads.offset_grad,
            grads.weight_grad,
            grads.mask_grad,
            grads.bias_grad,
        )
    }};
    ([MaxPool1dBackward], $result:expr) => {
        MaxPool1dBackward::new($result.x_grad)
    };
    ([MaxPool1dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool1dWithIndices::new(pooled.output, pooled.indices)
    }};
    ([MaxPool2dBackward], $result:expr) => {
        MaxPool2dBackward::new($result.x_grad)
    };
    ([MaxPool2dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool2dWithIndices::new(pooled.output, pooled.indices)
    }};
    ($kind:tt, $result:expr) => {
        $result
    };
}

impl<B: Backend> FloatTensorOps<Self> for Trace<B> {
    float_tensor_ops! { recorded! }
}

impl<B: Backend> IntTensorOps<Self> for Trace<B> {
    int_tensor_ops! { recorded! }
}

impl<B: Backend> BoolTensorOps<Self> for Trace<B> {
    bool_tensor_ops! { recorded! }
}

impl<B: Backend> ModuleOps<Self> for Trace<B> {
    module_ops! { recorded! }
}

impl<B: Backend> ActivationOps<Self> for Trace<B> {
    activation_ops! { recorded! }
}

impl<B: Backend> QTensorOps<Self> for Trace<B> {
    q_tensor_ops! { recorded! }
}

impl<B: Backend> TransactionOps<Self> for Trace<B> {
    transaction_ops! { recorded! }
}

pub(crate) use inner;
pub(crate) use renamed;
