//! The methods of the backend: one for each row of the table, and those that make tensors.

use std::ops::Range;

use burn_amp_core::{
    activation_ops, bool_tensor_ops, float_tensor_ops, int_tensor_ops, module_ops, q_tensor_ops,
};
use burn_backend::{
    ExecutionError, TensorPrimitive,
    ops::*,
    quantization::{QuantScheme, QuantizationParametersPrimitive},
};

use crate::prelude::*;

use super::{
    ByHand, Known, Rounded,
    call::{Call, Decided, result, with_errors},
    precision,
    rows::{by_hand, in_low, look, operand, wrapped},
    stored_in,
};

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
            Precision::F32 if tensor.stored.is_low() => tensor.stored,
            to => to,
        };
        if tensor.stored == stored {
            return Rounded {
                logical: to,
                known: Known::Nothing,
                ..tensor
            };
        }
        Rounded {
            values: tensor.operand(Some(to)),
            unrounded: None,
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

/// With this empty `impl`, the backend uses burn-amp's reference code instead of its kernels.
impl AmpBackend for ByHand {}
