//! The ops of [`Autodiff`] and [`Known`], generated from burn-amp's table.

use std::ops::Range;

use burn_amp_core::{
    activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops, q_tensor_ops,
    transaction_ops,
};
use burn_autodiff_engine::{
    Autodiff as Recorded, checkpoint::strategy::CheckpointStrategy, chosen,
};
use burn_backend::{
    Backend, BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice,
    TensorData, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};
use burn_std::PadMode;

use crate::{
    backend::{Amped, Autodiff},
    known::Known,
    ops::{amped, recorded},
    tensor::AutodiffTensor,
};

/// Writes the method of one row, which calls the plain backend.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! known {
    ($($row:tt)*) => {
        forwarded! { (B) (plain) $($row)* }
    };
}

/// Writes the method of one row, which calls burn-amp under the checkpointing strategy of the backend. A macro for the same
/// reason as [`known!`].
macro_rules! amped {
    ($($row:tt)*) => {
        forwarded! { (Amped::<B>) (chosen) $($row)* }
    };
}

macro_rules! forwarded {
    (
        ($($to:tt)*) $how:tt $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        #[inline]
        $($async)? fn $op($($x: $type),*) -> $ret {
            renamed!($how $result, called!($how, $($to)*::$op($(inner!($how $kind, $x)),*))$(.$await)?)
        }
    };
}

macro_rules! called {
    ((plain), $call:expr) => {
        $call
    };
    ((chosen), $call:expr) => {
        chosen::with::<C, _>(|| $call)
    };
}

/// A float tensor as an operand of the other backend.
macro_rules! given {
    ((plain) $x:expr) => {
        $x
    };
    ((chosen) $x:expr) => {
        $x.tracked()
    };
}

/// A float tensor as a result of the other backend.
macro_rules! made {
    ((plain) $x:expr) => {
        $x
    };
    ((chosen) $x:expr) => {
        AutodiffTensor::of($x)
    };
}

/// Converts an operand to the type that the other backend expects.
macro_rules! inner {
    ($how:tt [F], $x:ident) => {
        given!($how $x)
    };
    ((chosen) [&F], $x:ident) => {
        &$x.clone().tracked()
    };
    ($how:tt [Option<F>], $x:ident) => {
        $x.map(|x| given!($how x))
    };
    ($how:tt [Vec<F>], $x:ident) => {
        $x.into_iter().map(|x| given!($how x)).collect()
    };
    ($how:tt [QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive {
            scales: given!($how $x.scales),
            global: $x.global.map(|x| given!($how x)),
        }
    };
    ($how:tt [Primitive], $x:ident) => {
        match $x {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(given!($how tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ($how:tt [TransactionPrimitive], $x:ident) => {
        TransactionPrimitive::new(
            $x.read_floats.into_iter().map(|x| given!($how x)).collect(),
            $x.read_qfloats,
            $x.read_ints,
            $x.read_bools,
        )
    };
    ($how:tt $kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the other backend.
macro_rules! renamed {
    ($how:tt [F], $result:expr) => {
        made!($how $result)
    };
    ($how:tt [Wide], $result:expr) => {
        made!($how $result)
    };
    ($how:tt [(F, F)], $result:expr) => {{
        let (one, other) = $result;
        (made!($how one), made!($how other))
    }};
    ($how:tt [(F, I)], $result:expr) => {{
        let (values, indices) = $result;
        (made!($how values), indices)
    }};
    ($how:tt [Primitive], $result:expr) => {
        match $result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(made!($how tensor)),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ($how:tt [DeformConv2dBackward], $result:expr) => {{
        let grads = $result;
        DeformConv2dBackward::new(
            made!($how grads.x_grad),
            made!($how grads.offset_grad),
            made!($how grads.weight_grad),
            grads.mask_grad.map(|x| made!($how x)),
            grads.bias_grad.map(|x| made!($how x)),
        )
    }};
    ($how:tt [MaxPool1dBackward], $result:expr) => {
        MaxPool1dBackward::new(made!($how $result.x_grad))
    };
    ($how:tt [MaxPool1dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool1dWithIndices::new(made!($how pooled.output), pooled.indices)
    }};
    ($how:tt [MaxPool2dBackward], $result:expr) => {
        MaxPool2dBackward::new(made!($how $result.x_grad))
    };
    ($how:tt [MaxPool2dWithIndices], $result:expr) => {{
        let pooled = $result;
        MaxPool2dWithIndices::new(made!($how pooled.output), pooled.indices)
    }};
    ($how:tt $kind:tt, $result:expr) => {
        $result
    };
}

mod autodiff;
mod known;
