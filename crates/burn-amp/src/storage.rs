//! The dtype in which a tensor is stored.

use burn::tensor::{DType, Tensor, TensorMetadata, TensorPrimitive};

use burn_amp_decorator::Amped;

/// Returns the dtype in which a tensor's values are stored.
///
/// `tensor.dtype()` is the *logical* dtype: the one that the tensor would have without burn-amp.
pub fn storage_dtype<A: Amped, const D: usize>(tensor: &Tensor<A, D>) -> DType {
    match tensor.clone().into_primitive() {
        TensorPrimitive::Float(tensor) => tensor.storage_dtype(),
        TensorPrimitive::QFloat(tensor) => tensor.dtype(),
    }
}

/// Stores a tensor in F32 from here on, as PyTorch's `.float()` does under autocast.
///
/// `tensor.cast(DType::F32)` cannot do that: the dtype that the model sees is F32 already, so Burn leaves the tensor as it
/// is. Ops of class `low` still cast the result down again; [`full_precision`](crate::full_precision) keeps them in F32
/// too. F64 and quantized tensors stay as they are.
///
/// ```
/// # use burn::{backend::Flex, tensor::{DType, Tensor}};
/// # use burn_amp::config::{Compute, Config, ConfigError, ConfigSource};
/// # struct InBf16;
/// # impl ConfigSource for InBf16 {
/// #     fn config() -> Result<Config, ConfigError> {
/// #         Ok(Config { compute: Compute::Bf16, ..Default::default() })
/// #     }
/// # }
/// type B = burn_amp::Amp<Flex, InBf16>;
///
/// let x = Tensor::<B, 2>::ones([2, 2], &Default::default());
/// let low = x.clone().matmul(x);
/// assert_eq!(burn_amp::storage_dtype(&low), DType::BF16);
/// assert_eq!(burn_amp::storage_dtype(&burn_amp::to_f32(low)), DType::F32);
/// ```
#[doc(alias = "float")]
pub fn to_f32<A: Amped, const D: usize>(tensor: Tensor<A, D>) -> Tensor<A, D> {
    Tensor::from_primitive(match tensor.into_primitive() {
        TensorPrimitive::Float(tensor) => TensorPrimitive::Float(tensor.in_f32()),
        TensorPrimitive::QFloat(tensor) => TensorPrimitive::QFloat(tensor),
    })
}
