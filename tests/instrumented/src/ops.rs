//! The op traits, generated from the table of all ops.

use std::{iter::empty, ops::Range};

use burn_amp_core::{
    Op, activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops,
    q_tensor_ops, transaction_ops,
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

use crate::{Instrument, Instrumented, Value};

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! instrumented {
    // Their operands have the type of the backend itself; the default implementations call instrumented ops.
    (q_matmul $($row:tt)*) => {};
    (tr_execute $($row:tt)*) => {};
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        #[allow(unused_mut, reason = "only tensors can be replaced")]
        $($async)? fn $op($(mut $x: $type),*) -> $ret {
            let seen = I::before(Op::$op, empty() $(.chain(values!($kind, $x)))*);
            let mut result = renamed!($result, B::$op($(inner!($kind, $x)),*)$(.$await)?);
            I::after(seen, empty().chain(values!($result, result)));
            result
        }
    };
}

/// The tensors of an operand or a result. A macro, because the kind of an operand is a word of the table.
macro_rules! values {
    ([F], $x:expr) => {
        [Value::Float(&mut $x)]
    };
    ([Wide], $x:expr) => {
        [Value::Float(&mut $x)]
    };
    ([I], $x:expr) => {
        [Value::Int(&mut $x)]
    };
    ([Bool], $x:expr) => {
        [Value::Bool(&mut $x)]
    };
    ([Option<F>], $x:expr) => {
        $x.iter_mut().map(Value::Float)
    };
    ([Option<Bool>], $x:expr) => {
        $x.iter_mut().map(Value::Bool)
    };
    ([Vec<F>], $x:expr) => {
        $x.iter_mut().map(Value::Float)
    };
    ([Vec<I>], $x:expr) => {
        $x.iter_mut().map(Value::Int)
    };
    ([Vec<Bool>], $x:expr) => {
        $x.iter_mut().map(Value::Bool)
    };
    ([FloatDType], $x:expr) => {
        [Value::Dtype($x)]
    };
    ([($a:ident, $b:ident)], $x:expr) => {
        values!([$a], $x.0).into_iter().chain(values!([$b], $x.1))
    };
    ([MaxPool1dBackward], $x:expr) => {
        values!([F], $x.x_grad)
    };
    ([MaxPool2dBackward], $x:expr) => {
        values!([F], $x.x_grad)
    };
    ([MaxPool1dWithIndices], $x:expr) => {
        [Value::Float(&mut $x.output), Value::Int(&mut $x.indices)]
    };
    ([MaxPool2dWithIndices], $x:expr) => {
        [Value::Float(&mut $x.output), Value::Int(&mut $x.indices)]
    };
    ([DeformConv2dBackward], $x:expr) => {
        [&mut $x.x_grad, &mut $x.offset_grad, &mut $x.weight_grad]
            .into_iter()
            .chain(&mut $x.mask_grad)
            .chain(&mut $x.bias_grad)
            .map(Value::Float)
    };
    ($kind:tt, $x:expr) => {
        empty()
    };
}

/// Converts an operand to the type that the inner backend expects. A macro for the same reason as [`values!`].
macro_rules! inner {
    ([QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive {
            scales: $x.scales,
            #[cfg(burn_0_22)]
            global: $x.global,
        }
    };
    ($kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the inner backend to the type of `Instrumented`. A macro for the same reason as [`values!`].
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

impl<B: AmpBackend, I: Instrument<B>> FloatTensorOps<Self> for Instrumented<B, I> {
    float_tensor_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> IntTensorOps<Self> for Instrumented<B, I> {
    int_tensor_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> BoolTensorOps<Self> for Instrumented<B, I> {
    bool_tensor_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> ModuleOps<Self> for Instrumented<B, I> {
    module_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> ActivationOps<Self> for Instrumented<B, I> {
    activation_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> QTensorOps<Self> for Instrumented<B, I> {
    q_tensor_ops! { instrumented! }
}

impl<B: AmpBackend, I: Instrument<B>> TransactionOps<Self> for Instrumented<B, I> {
    transaction_ops! { instrumented! }
}
