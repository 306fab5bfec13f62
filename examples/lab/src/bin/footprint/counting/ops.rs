//! The op traits of Burn for [`Counting`], generated from the table of all ops.

use std::ops::Range;

use burn_amp_core::{
    activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops, q_tensor_ops,
    transaction_ops,
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

use super::{
    Counting,
    launches::{Size, record},
};

/// Writes the counting method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! counted {
    // Their operands hold tensors of the backend's own type; they are not launches of a training step.
    (q_matmul $($row:tt)*) => {};
    (tr_execute $($row:tt)*) => {};
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            let size = Size::default();
            $(let size = operand!($kind, $x, size);)*
            let result = renamed!($result, B::$op($(inner!($kind, $x)),*)$(.$await)?);
            record(stringify!($op), size, result!($result, result));
            result
        }
    };
}

/// Adds an operand to a size. A macro, because the kind of an operand is a word of the table.
macro_rules! operand {
    ([F], $x:ident, $size:ident) => {
        $size.and(&$x)
    };
    ([I], $x:ident, $size:ident) => {
        $size.and(&$x)
    };
    ([Bool], $x:ident, $size:ident) => {
        $size.and(&$x)
    };
    ([Option<$kind:ident>], $x:ident, $size:ident) => {
        option!($kind, $x, $size)
    };
    ([Vec<$kind:ident>], $x:ident, $size:ident) => {
        list!($kind, $x, $size)
    };
    ($kind:tt, $x:ident, $size:ident) => {
        $size
    };
}

/// Adds an optional operand. A macro for the same reason as [`operand!`].
macro_rules! option {
    (usize, $x:ident, $size:ident) => {
        $size
    };
    ($kind:ident, $x:ident, $size:ident) => {
        $size.all(&$x)
    };
}

/// Adds a list of operands. A macro for the same reason as [`operand!`].
macro_rules! list {
    (Q, $x:ident, $size:ident) => {
        $size
    };
    ($kind:ident, $x:ident, $size:ident) => {
        $size.all(&$x)
    };
}

/// The size of a result. A macro for the same reason as [`operand!`].
macro_rules! result {
    ([F], $x:ident) => {
        Size::default().and(&$x)
    };
    ([Wide], $x:ident) => {
        Size::default().and(&$x)
    };
    ([I], $x:ident) => {
        Size::default().and(&$x)
    };
    ([Bool], $x:ident) => {
        Size::default().and(&$x)
    };
    ([($a:ident, $b:ident)], $x:ident) => {
        Size::default().and(&$x.0).and(&$x.1)
    };
    ([MaxPool1dBackward], $x:ident) => {
        Size::default().and(&$x.x_grad)
    };
    ([MaxPool2dBackward], $x:ident) => {
        Size::default().and(&$x.x_grad)
    };
    ([MaxPool1dWithIndices], $x:ident) => {
        Size::default().and(&$x.output).and(&$x.indices)
    };
    ([MaxPool2dWithIndices], $x:ident) => {
        Size::default().and(&$x.output).and(&$x.indices)
    };
    ([DeformConv2dBackward], $x:ident) => {
        Size::default()
            .and(&$x.x_grad)
            .and(&$x.offset_grad)
            .and(&$x.weight_grad)
            .all(&$x.mask_grad)
            .all(&$x.bias_grad)
    };
    ($kind:tt, $x:ident) => {
        Size::default()
    };
}

/// Converts an operand to the type that the inner backend expects. A macro for the same reason as [`operand!`].
macro_rules! inner {
    ([QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive { scales: $x.scales }
    };
    ($kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the inner backend to the type of `Counting`. A macro for the same reason as [`operand!`].
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

impl<B: AmpBackend> FloatTensorOps<Self> for Counting<B> {
    float_tensor_ops! { counted! }
}

impl<B: AmpBackend> IntTensorOps<Self> for Counting<B> {
    int_tensor_ops! { counted! }
}

impl<B: AmpBackend> BoolTensorOps<Self> for Counting<B> {
    bool_tensor_ops! { counted! }
}

impl<B: AmpBackend> ModuleOps<Self> for Counting<B> {
    module_ops! { counted! }
}

impl<B: AmpBackend> ActivationOps<Self> for Counting<B> {
    activation_ops! { counted! }
}

impl<B: AmpBackend> QTensorOps<Self> for Counting<B> {
    q_tensor_ops! { counted! }
}

impl<B: AmpBackend> TransactionOps<Self> for Counting<B> {
    transaction_ops! { counted! }
}
