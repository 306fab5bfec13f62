//! `QTensorOps`. The inner backend does the quantized arithmetic; ops on its float results follow the policy.

use burn_amp_core::{Op, q_tensor_ops};
use burn_amp_kernels::AmpBackend;
use burn_amp_kernels::names::q_device_of;
use burn_backend::{
    BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    TensorPrimitive,
    ops::QTensorOps,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
    tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor},
};

use crate::{
    backend::Amp,
    cast::{call::Call, forward::forward},
    graph::Graph,
    policy::ConfigSource,
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> QTensorOps<Self> for Amp<B, P, G> {
    q_tensor_ops! { forward! }
}

fn q_matmul<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: TensorPrimitive<Amp<B, P, G>>,
    rhs: TensorPrimitive<Amp<B, P, G>>,
) -> TensorPrimitive<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::q_matmul);
    let mut into_inner = |operand| match operand {
        TensorPrimitive::Float(tensor) => {
            call.float::<G>(&tensor);
            TensorPrimitive::Float(tensor.into_inner())
        }
        TensorPrimitive::QFloat(tensor) => {
            call.device::<P, _>(|| q_device_of::<G::Inner>(&tensor));
            TensorPrimitive::QFloat(tensor)
        }
    };
    let (lhs, rhs) = (into_inner(lhs), into_inner(rhs));
    call.decide().primitive(G::Inner::q_matmul(lhs, rhs))
}
