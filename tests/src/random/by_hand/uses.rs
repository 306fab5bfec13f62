//! Autodiff over casts by hand, in which each use of a tensor casts it.

use std::ops::Range;

use burn::backend::Autodiff;
use burn_amp_core::{
    Op, Precision, activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops,
    q_tensor_ops,
};
use burn_backend::{
    Backend, BackendTypes, BoolDType, DType, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorPrimitive,
    backend::AutodiffBackend,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

use super::{
    ByHand,
    call::{Call, Decided},
    float,
};
use crate::trace::{inner, renamed};

type Inner = Autodiff<ByHand>;

/// Autodiff over [`ByHand`], in which each use of a tensor in low precision, by a step or inside a layer, gives a
/// gradient in low precision: the backward pass of a cast casts back, and the gradients of the uses are added afterwards.
/// An op that autodiff composes of others stores its result as one op does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses;

impl BackendTypes for Uses {
    type Device = <Inner as BackendTypes>::Device;
    type FloatTensorPrimitive = <Inner as BackendTypes>::FloatTensorPrimitive;
    type FloatElem = <Inner as BackendTypes>::FloatElem;
    type IntTensorPrimitive = <Inner as BackendTypes>::IntTensorPrimitive;
    type IntElem = <Inner as BackendTypes>::IntElem;
    type BoolTensorPrimitive = <Inner as BackendTypes>::BoolTensorPrimitive;
    type BoolElem = <Inner as BackendTypes>::BoolElem;
    type QuantizedTensorPrimitive = <Inner as BackendTypes>::QuantizedTensorPrimitive;
}

impl Backend for Uses {
    fn ad_enabled(device: &Self::Device) -> bool {
        Inner::ad_enabled(device)
    }

    fn name(device: &Self::Device) -> String {
        Inner::name(device)
    }

    fn seed(device: &Self::Device, seed: u64) {
        Inner::seed(device, seed)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        Inner::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        Inner::device_count(type_id)
    }
}

impl AutodiffBackend for Uses {
    type InnerBackend = ByHand;
    type Gradients = <Inner as AutodiffBackend>::Gradients;

    fn backward(tensor: FloatTensor<Self>) -> Self::Gradients {
        Inner::backward(tensor)
    }

    fn grad(tensor: &FloatTensor<Self>, grads: &Self::Gradients) -> Option<FloatTensor<ByHand>> {
        Inner::grad(tensor, grads)
    }

    fn grad_remove(
        tensor: &FloatTensor<Self>,
        grads: &mut Self::Gradients,
    ) -> Option<FloatTensor<ByHand>> {
        Inner::grad_remove(tensor, grads)
    }

    fn grad_replace(
        tensor: &FloatTensor<Self>,
        grads: &mut Self::Gradients,
        grad: FloatTensor<ByHand>,
    ) {
        Inner::grad_replace(tensor, grads, grad)
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<ByHand> {
        Inner::inner(tensor)
    }

    fn int_inner(tensor: IntTensor<Self>) -> IntTensor<ByHand> {
        Inner::int_inner(tensor)
    }

    fn bool_inner(tensor: BoolTensor<Self>) -> BoolTensor<ByHand> {
        Inner::bool_inner(tensor)
    }

    fn q_inner(tensor: QuantizedTensor<Self>) -> QuantizedTensor<ByHand> {
        Inner::q_inner(tensor)
    }

    fn from_inner(tensor: FloatTensor<ByHand>) -> FloatTensor<Self> {
        Inner::from_inner(tensor)
    }

    fn int_from_inner(tensor: IntTensor<ByHand>) -> IntTensor<Self> {
        Inner::int_from_inner(tensor)
    }

    fn bool_from_inner(tensor: BoolTensor<ByHand>) -> BoolTensor<Self> {
        Inner::bool_from_inner(tensor)
    }

    fn q_from_inner(tensor: QuantizedTensor<ByHand>) -> QuantizedTensor<Self> {
        Inner::q_from_inner(tensor)
    }
}

/// What an op reads of an operand.
fn used(x: FloatTensor<Uses>) -> FloatTensor<Uses> {
    match x.primitive.low() {
        Some(low) => Inner::float_cast(Inner::float_cast(x, low), FloatDType::F32),
        None => x,
    }
}

/// The result of an op that autodiff composes, stored as the policy decides.
fn stored(decided: Decided, mut result: FloatTensor<Uses>) -> FloatTensor<Uses> {
    if !decided.stored.is_low() || result.primitive.stored != Precision::F32 {
        return result;
    }
    let unrounded = result.primitive.values.clone();
    result = Inner::float_cast(result, float(decided.stored));
    result = Inner::float_cast(result, float(decided.logical));
    result.primitive.unrounded = decided.remembers.then_some(unrounded);
    result
}

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! uses {
    // No program calls ops on quantized tensors.
    (q_matmul $($row:tt)*) => {};
    // Autodiff composes these of other ops, so their results are rounded here.
    (prelu $($row:tt)*) => { one_op! { prelu $($row)* } };
    (softmax $($row:tt)*) => { one_op! { softmax $($row)* } };
    (layer_norm $($row:tt)*) => { one_op! { layer_norm $($row)* } };
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            renamed!($result, Inner::$op($(operand!($kind, $x)),*)$(.$await)?)
        }
    };
}

/// Writes the method of a row whose result is stored as the policy decides for its first operand. A macro for the same
/// reason as [`uses!`].
macro_rules! one_op {
    (
        $op:ident [] ($first:ident: $of:ty as [F], $($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as [F] $(by $hand:ident)?
    ) => {
        fn $op($first: $of, $($x: $type),*) -> $ret {
            let mut call = Call::new(Op::$op);
            call.float(&$first.primitive);
            stored(call.decide(), Inner::$op(used($first), $(operand!($kind, $x)),*))
        }
    };
}

/// What the op of a row reads. A macro, because the kind of an operand is a word of the table.
macro_rules! operand {
    ([F], $x:ident) => {
        used($x)
    };
    ([Option<F>], $x:ident) => {
        $x.map(used)
    };
    ([Vec<F>], $x:ident) => {
        $x.into_iter().map(used).collect()
    };
    ($kind:tt, $x:ident) => {
        inner!($kind, $x)
    };
}

impl FloatTensorOps<Self> for Uses {
    float_tensor_ops! { uses! }
}

impl IntTensorOps<Self> for Uses {
    int_tensor_ops! { uses! }
}

impl BoolTensorOps<Self> for Uses {
    bool_tensor_ops! { uses! }
}

impl ModuleOps<Self> for Uses {
    module_ops! { uses! }
}

impl ActivationOps<Self> for Uses {
    activation_ops! { uses! }
}

impl QTensorOps<Self> for Uses {
    q_tensor_ops! { uses! }
}

impl TransactionOps<Self> for Uses {}
