//! `QTensorOps`. Quantized arithmetic is the inner backend's; its float results follow the policy from there on.

use burn_amp_core::{Op, q_tensor_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    TensorPrimitive,
    ops::QTensorOps,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor},
};

use crate::{
    backend::Amp,
    call::Call,
    graph::Graph,
    policy::{Context, PolicySource},
    tensor::AmpTensor,
};

q_tensor_ops! { forward!
    fn quantize(
        tensor: FloatTensor<Self>,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<Self>,
    ) -> QuantizedTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::quantize);
        call.float(&tensor);
        call.float(&qparams.scales);
        let call = call.decide();
        let scales = call.cast(qparams.scales);
        G::Inner::quantize(call.cast(tensor), scheme, QuantizationParametersPrimitive { scales })
    }

    fn dequantize(tensor: QuantizedTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let context = Context::of::<P>(&G::Inner::q_device(&tensor));
        AmpTensor::new(G::Inner::dequantize(tensor, dtype), context)
    }

    async fn q_into_data(tensor: QuantizedTensor<Self>) -> Result<TensorData, ExecutionError> {
        G::Inner::q_into_data(tensor).await
    }

    fn q_matmul(
        lhs: TensorPrimitive<Self>,
        rhs: TensorPrimitive<Self>,
    ) -> TensorPrimitive<Self> {
        let mut call = Call::<B>::new::<G>(Op::q_matmul);
        let mut into_inner = |operand| match operand {
            TensorPrimitive::Float(tensor) => {
                call.float::<G>(&tensor);
                TensorPrimitive::Float(tensor.into_inner())
            }
            TensorPrimitive::QFloat(tensor) => {
                call.device::<P>(&G::Inner::q_device(&tensor));
                TensorPrimitive::QFloat(tensor)
            }
        };
        let (lhs, rhs) = (into_inner(lhs), into_inner(rhs));
        call.decide().primitive(G::Inner::q_matmul(lhs, rhs))
    }
}
