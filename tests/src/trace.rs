//! A recording backend: which op ran on which float dtypes, made from the same table as the decorator.

use std::{cell::RefCell, marker::PhantomData, ops::Range};

use burn_amp_core::{
    Op, activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops,
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

/// The calls with float operands that `f` makes on a `Trace` backend on this thread, in order.
pub fn calls(f: impl FnOnce()) -> Vec<(Op, Vec<DType>)> {
    CALLS.take();
    f();
    CALLS.take()
}

fn record(op: Op, dtypes: Vec<DType>) {
    if !dtypes.is_empty() {
        CALLS.with_borrow_mut(|calls| calls.push((op, dtypes)));
    }
}

/// Records every call with float operands, then lets `B` compute it.
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

/// A backend that burn-amp does not know computes with the references.
impl<B: Backend> burn_amp::Kernels for Trace<B> {}

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

macro_rules! kind {
    (F) => { FloatTensor<Self> };
    (Wide) => { FloatTensor<Self> };
    (I) => { IntTensor<Self> };
    (Bool) => { BoolTensor<Self> };
    (Q) => { QuantizedTensor<Self> };
    (Device) => { Device<Self> };
    (Primitive) => { TensorPrimitive<Self> };
    (($($kind:ident),+)) => { ($(kind!($kind)),+) };
    ($type:ty) => { $type };
}

macro_rules! renamed {
    (Primitive, $result:expr) => {
        match $result {
            TensorPrimitive::Float(tensor) => TensorPrimitive::Float(tensor),
            TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
        }
    };
    ($kind:tt, $result:expr) => {
        $result
    };
}

/// The recording forwarders; a macro, because one function cannot be generic over signatures.
macro_rules! record_rows {
    (
        $Ops:ident {
            $($f16:ident $(/ $bf16:ident)? $op:ident ($($kinds:tt)*) -> $ret:tt;)*
        } by_hand {
            $($listed:tt)*
        }
        $($by_hand:tt)*
    ) => {
        impl<B: Backend> $Ops<Self> for Trace<B> {
            $(record_rows!(@operands $op [$($kinds)*] -> $ret, sig[] pass[] dtypes[]);)*
            $($by_hand)*
        }
    };
    (@operands $op:ident [F $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] dtypes[$($d:tt)*]) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: FloatTensor<Self>,] pass[$($p)* x,]
            dtypes[$($d)* .chain([x.dtype()])]);
    };
    (@operands $op:ident [Option<F> $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] dtypes[$($d:tt)*]) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: Option<FloatTensor<Self>>,] pass[$($p)* x,]
            dtypes[$($d)* .chain(x.as_ref().map(|x| x.dtype()))]);
    };
    (@operands $op:ident [Vec<F> $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] dtypes[$($d:tt)*]) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: Vec<FloatTensor<Self>>,] pass[$($p)* x,]
            dtypes[$($d)* .chain(x.iter().map(|x| x.dtype()))]);
    };
    (@operands $op:ident [$outer:ident<$kind:ident> $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] $($d:tt)*) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: $outer<kind!($kind)>,] pass[$($p)* x,] $($d)*);
    };
    (@operands $op:ident [&$kind:ident $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] $($d:tt)*) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: &kind!($kind),] pass[$($p)* x,] $($d)*);
    };
    (@operands $op:ident [$kind:ident $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] $($d:tt)*) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: kind!($kind),] pass[$($p)* x,] $($d)*);
    };
    (@operands $op:ident [$type:ty $(, $($more:tt)*)?] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] $($d:tt)*) => {
        record_rows!(@operands $op [$($($more)*)?] -> $ret, sig[$($s)* x: $type,] pass[$($p)* x,] $($d)*);
    };
    (@operands $op:ident [] -> $ret:tt, sig[$($s:tt)*] pass[$($p:tt)*] dtypes[$($d:tt)*]) => {
        fn $op($($s)*) -> kind!($ret) {
            record(Op::$op, std::iter::empty() $($d)* .collect());
            renamed!($ret, B::$op($($p)*))
        }
    };
}

float_tensor_ops! { record_rows!
    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &Device<Self>,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        B::float_random(shape, distribution, device, dtype)
    }

    fn float_gather(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self> {
        record(Op::float_gather, vec![tensor.dtype()]);
        B::float_gather(dim, tensor, indices)
    }

    fn float_mul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        record(Op::float_mul, vec![lhs.dtype(), rhs.dtype()]);
        B::float_mul(lhs, rhs)
    }

    async fn float_into_data(tensor: FloatTensor<Self>) -> Result<TensorData, ExecutionError> {
        B::float_into_data(tensor).await
    }

    fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self> {
        B::float_to_device(tensor, device)
    }

    fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self> {
        B::float_set_require_grad(tensor, require_grad)
    }

    fn float_cast(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        record(Op::float_cast, vec![tensor.dtype(), dtype.into()]);
        B::float_cast(tensor, dtype)
    }
}

int_tensor_ops! { record_rows!
    async fn int_into_data(tensor: IntTensor<Self>) -> Result<TensorData, ExecutionError> {
        B::int_into_data(tensor).await
    }

    fn int_into_float(tensor: IntTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        B::int_into_float(tensor, dtype)
    }
}

bool_tensor_ops! { record_rows!
    async fn bool_into_data(tensor: BoolTensor<Self>) -> Result<TensorData, ExecutionError> {
        B::bool_into_data(tensor).await
    }

    fn bool_into_float(tensor: BoolTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        B::bool_into_float(tensor, dtype)
    }
}

activation_ops! { record_rows! }

module_ops! { record_rows!
    fn deform_conv2d_backward(
        x: FloatTensor<Self>,
        offset: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: Option<FloatTensor<Self>>,
        bias: Option<FloatTensor<Self>>,
        output_grad: FloatTensor<Self>,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Self> {
        let grads = B::deform_conv2d_backward(x, offset, weight, mask, bias, output_grad, options);
        DeformConv2dBackward::new(
            grads.x_grad, grads.offset_grad, grads.weight_grad, grads.mask_grad, grads.bias_grad,
        )
    }

    fn max_pool2d_with_indices(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> MaxPool2dWithIndices<Self> {
        record(Op::max_pool2d_with_indices, vec![x.dtype()]);
        let pooled = B::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode);
        MaxPool2dWithIndices::new(pooled.output, pooled.indices)
    }

    fn max_pool2d_with_indices_backward(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: FloatTensor<Self>,
        indices: IntTensor<Self>,
    ) -> MaxPool2dBackward<Self> {
        record(Op::max_pool2d_with_indices_backward, vec![x.dtype(), output_grad.dtype()]);
        let grad = B::max_pool2d_with_indices_backward(
            x, kernel_size, stride, padding, dilation, ceil_mode, output_grad, indices,
        );
        MaxPool2dBackward::new(grad.x_grad)
    }

    fn attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        mask: Option<BoolTensor<Self>>,
        attn_bias: Option<FloatTensor<Self>>,
        options: AttentionModuleOptions,
    ) -> FloatTensor<Self> {
        record(Op::attention, vec![query.dtype(), key.dtype(), value.dtype()]);
        B::attention(query, key, value, mask, attn_bias, options)
    }
}

q_tensor_ops! { record_rows!
    fn quantize(
        tensor: FloatTensor<Self>,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<Self>,
    ) -> QuantizedTensor<Self> {
        B::quantize(tensor, scheme, QuantizationParametersPrimitive { scales: qparams.scales })
    }

    fn dequantize(tensor: QuantizedTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        B::dequantize(tensor, dtype)
    }

    async fn q_into_data(tensor: QuantizedTensor<Self>) -> Result<TensorData, ExecutionError> {
        B::q_into_data(tensor).await
    }
}

transaction_ops! { record_rows! }
