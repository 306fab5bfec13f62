//! A backend with hooks around each op that has a float result; generated from the same table as `Amp`.

use std::{fmt::Debug, marker::PhantomData, ops::Range};

use burn_amp::{
    AmpBackend,
    extend::{AmpTensor, Amped},
};
use burn_amp_core::{
    Op, activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops,
    q_tensor_ops, transaction_ops,
};
use burn_amp_kernels::{Kernel, finite::NotFinite, kernel::TensorsOf};
use burn_backend::{
    AutodiffBackend, Backend, BackendTypes, BoolDType, DType, DTypeUsageSet, Distribution,
    ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor},
};

/// What happens before and after an op.
pub trait Hook<B: Backend>: Clone + Copy + Debug + Default + Send + Sync + 'static {
    /// What is remembered of a call until its end.
    type Seen;

    fn before(op: Op, operands: Vec<FloatTensor<B>>) -> Self::Seen;

    fn after(seen: Self::Seen, result: FloatTensor<B>) -> FloatTensor<B>;
}

/// `B`, with `H` around its ops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hooked<B, H>(PhantomData<(B, H)>);

impl<B: Backend, H: Hook<B>> BackendTypes for Hooked<B, H> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type FloatElem = B::FloatElem;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type IntElem = B::IntElem;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type BoolElem = B::BoolElem;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
}

impl<B: Backend, H: Hook<B>> Backend for Hooked<B, H> {
    fn name(device: &Self::Device) -> String {
        format!("hooked<{}>", B::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed)
    }

    fn ad_enabled(device: &Self::Device) -> bool {
        B::ad_enabled(device)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }
}

/// The finite check is not hooked: it is how an overflow is looked for.
impl<B: AmpBackend, H: Hook<B>> AmpBackend for Hooked<B, H> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        if K::NAME == NotFinite::NAME {
            B::run(kernel, operands)
        } else {
            kernel.reference::<Self>(operands)
        }
    }
}

/// Over `Amp`, so that it can name parameters.
impl<B, H> Amped for Hooked<B, H>
where
    B: Amped + Backend<FloatTensorPrimitive = AmpTensor<B::Plain, B::Graph>>,
    H: Hook<B>,
{
    type Plain = B::Plain;
    type Source = B::Source;
    type Graph = B::Graph;
}

impl<B: AutodiffBackend, H: Hook<B>> AutodiffBackend for Hooked<B, H> {
    type InnerBackend = B::InnerBackend;
    type Gradients = B::Gradients;

    fn backward(tensor: FloatTensor<Self>) -> Self::Gradients {
        B::backward(tensor)
    }

    fn grad(
        tensor: &FloatTensor<Self>,
        grads: &Self::Gradients,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        B::grad(tensor, grads)
    }

    fn grad_remove(
        tensor: &FloatTensor<Self>,
        grads: &mut Self::Gradients,
    ) -> Option<FloatTensor<Self::InnerBackend>> {
        B::grad_remove(tensor, grads)
    }

    fn grad_replace(
        tensor: &FloatTensor<Self>,
        grads: &mut Self::Gradients,
        grad: FloatTensor<Self::InnerBackend>,
    ) {
        B::grad_replace(tensor, grads, grad)
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<Self::InnerBackend> {
        B::inner(tensor)
    }

    fn int_inner(tensor: IntTensor<Self>) -> IntTensor<Self::InnerBackend> {
        B::int_inner(tensor)
    }

    fn bool_inner(tensor: BoolTensor<Self>) -> BoolTensor<Self::InnerBackend> {
        B::bool_inner(tensor)
    }

    fn q_inner(tensor: QuantizedTensor<Self>) -> QuantizedTensor<Self::InnerBackend> {
        B::q_inner(tensor)
    }

    fn from_inner(tensor: FloatTensor<Self::InnerBackend>) -> FloatTensor<Self> {
        B::from_inner(tensor)
    }

    fn int_from_inner(tensor: IntTensor<Self::InnerBackend>) -> IntTensor<Self> {
        B::int_from_inner(tensor)
    }

    fn bool_from_inner(tensor: BoolTensor<Self::InnerBackend>) -> BoolTensor<Self> {
        B::bool_from_inner(tensor)
    }

    fn q_from_inner(tensor: QuantizedTensor<Self::InnerBackend>) -> QuantizedTensor<Self> {
        B::q_from_inner(tensor)
    }
}

/// Writes the method of one row.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! hooked {
    // Their operands have the type of the backend itself; the default implementations call hooked ops.
    (q_matmul $($row:tt)*) => {};
    (tr_execute $($row:tt)*) => {};
    (
        $op:ident [] ($($x:ident: $type:ty as $kind:tt,)*) -> $ret:ty as [F] $(by $hand:ident)?
    ) => {
        fn $op($($x: $type),*) -> $ret {
            let operands = std::iter::empty() $(.chain(floats!($kind, $x)))* .collect();
            let seen = H::before(Op::$op, operands);
            H::after(seen, B::$op($(inner!($kind, $x)),*))
        }
    };
    (
        $op:ident [$($async:ident.$await:ident)?] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $hand:ident)?
    ) => {
        $($async)? fn $op($($x: $type),*) -> $ret {
            renamed!($result, B::$op($(inner!($kind, $x)),*)$(.$await)?)
        }
    };
}

/// The float tensors of an operand. A macro, because the kind of an operand is a word of the table.
macro_rules! floats {
    ([F], $x:ident) => {
        [$x.clone()]
    };
    ([Option<F>], $x:ident) => {
        $x.clone()
    };
    ([Vec<F>], $x:ident) => {
        $x.iter().cloned()
    };
    ($kind:tt, $x:ident) => {
        None
    };
}

/// Converts an operand to the type that the inner backend expects. A macro for the same reason as [`floats!`].
macro_rules! inner {
    ([QuantizationParametersPrimitive], $x:ident) => {
        QuantizationParametersPrimitive { scales: $x.scales }
    };
    ($kind:tt, $x:ident) => {
        $x
    };
}

/// Converts a result of the inner backend to the type of `Hooked`. A macro for the same reason as [`floats!`].
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

impl<B: Backend, H: Hook<B>> FloatTensorOps<Self> for Hooked<B, H> {
    float_tensor_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> IntTensorOps<Self> for Hooked<B, H> {
    int_tensor_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> BoolTensorOps<Self> for Hooked<B, H> {
    bool_tensor_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> ModuleOps<Self> for Hooked<B, H> {
    module_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> ActivationOps<Self> for Hooked<B, H> {
    activation_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> QTensorOps<Self> for Hooked<B, H> {
    q_tensor_ops! { hooked! }
}

impl<B: Backend, H: Hook<B>> TransactionOps<Self> for Hooked<B, H> {
    transaction_ops! { hooked! }
}
