//! What Burn 0.21 and 0.22 call differently, by one name. The other sources of this crate compile with both.

use burn_autodiff::{checkpoint::strategy::CheckpointStrategy, grads::Gradients};
use burn_backend::{
    Backend, DType, Shape, TensorData,
    ops::{ConvOptions, MaxPool1dWithIndices, MaxPool2dWithIndices},
    tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor},
};

/// The device of a float tensor.
pub fn device_of<B: Backend>(tensor: &FloatTensor<B>) -> Device<B> {
    #[cfg(not(burn_0_22))]
    return B::float_device(tensor);
    #[cfg(burn_0_22)]
    return burn_backend::TensorMetadata::device(tensor);
}

/// The device of an int tensor.
pub fn int_device_of<B: Backend>(tensor: &IntTensor<B>) -> Device<B> {
    #[cfg(not(burn_0_22))]
    return B::int_device(tensor);
    #[cfg(burn_0_22)]
    return burn_backend::TensorMetadata::device(tensor);
}

/// The device of a bool tensor.
pub fn bool_device_of<B: Backend>(tensor: &BoolTensor<B>) -> Device<B> {
    #[cfg(not(burn_0_22))]
    return B::bool_device(tensor);
    #[cfg(burn_0_22)]
    return burn_backend::TensorMetadata::device(tensor);
}

/// The device of a quantized tensor.
pub fn q_device_of<B: Backend>(tensor: &QuantizedTensor<B>) -> Device<B> {
    #[cfg(not(burn_0_22))]
    return B::q_device(tensor);
    #[cfg(burn_0_22)]
    return burn_backend::TensorMetadata::device(tensor);
}

/// The padding of a convolution before each dimension.
pub fn padding_before<const N: usize>(options: &ConvOptions<N>) -> [usize; N] {
    #[cfg(not(burn_0_22))]
    return options.padding;
    #[cfg(burn_0_22)]
    return options.padding.map(|(before, _)| before);
}

/// Adds values to the elements of a tensor that have the given indices along a dimension.
pub fn scatter_add<B: Backend>(
    dim: usize,
    tensor: FloatTensor<B>,
    indices: IntTensor<B>,
    values: FloatTensor<B>,
) -> FloatTensor<B> {
    #[cfg(not(burn_0_22))]
    return B::float_scatter_add(dim, tensor, indices, values);
    #[cfg(burn_0_22)]
    return {
        use burn_backend::tensor::IndexingUpdateOp::Add;
        B::float_scatter(dim, tensor, indices, values, Add)
    };
}

/// Adds values to the rows, along a dimension, that have the given indices.
pub fn select_add<B: Backend>(
    tensor: FloatTensor<B>,
    dim: usize,
    indices: IntTensor<B>,
    values: FloatTensor<B>,
) -> FloatTensor<B> {
    #[cfg(not(burn_0_22))]
    return B::float_select_add(tensor, dim, indices, values);
    #[cfg(burn_0_22)]
    return {
        use burn_backend::tensor::IndexingUpdateOp::Add;
        B::float_select_assign(tensor, dim, indices, values, Add)
    };
}

/// Max pooling with the indices of the largest elements, in the default int dtype of the device.
pub fn max_pool1d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> MaxPool1dWithIndices<B> {
    #[cfg(not(burn_0_22))]
    return B::max_pool1d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode);
    #[cfg(burn_0_22)]
    return {
        let indices = burn_backend::get_device_settings::<B>(&device_of::<B>(&x)).int_dtype;
        B::max_pool1d_with_indices(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            indices,
        )
    };
}

/// Max pooling with the indices of the largest elements, in the default int dtype of the device.
pub fn max_pool2d_with_indices<B: Backend>(
    x: FloatTensor<B>,
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
) -> MaxPool2dWithIndices<B> {
    #[cfg(not(burn_0_22))]
    return B::max_pool2d_with_indices(x, kernel_size, stride, padding, dilation, ceil_mode);
    #[cfg(burn_0_22)]
    return {
        let indices = burn_backend::get_device_settings::<B>(&device_of::<B>(&x)).int_dtype;
        B::max_pool2d_with_indices(
            x,
            kernel_size,
            stride,
            padding,
            dilation,
            ceil_mode,
            indices,
        )
    };
}

/// Whether a checkpointing strategy computes results again in the backward pass.
pub fn recomputes<C: CheckpointStrategy>() -> bool {
    #[cfg(not(burn_0_22))]
    return std::any::TypeId::of::<C>()
        != std::any::TypeId::of::<burn_autodiff::checkpoint::strategy::NoCheckpointing>();
    #[cfg(burn_0_22)]
    return burn_autodiff::chosen::recomputes::<C>();
}

/// Whether the ranks of Burn's `distributed` exchange gradients in the pass: that of a leaf when one of each use is
/// registered.
pub fn are_exchanged(grads: &Gradients) -> bool {
    #[cfg(burn_0_22)]
    return grads.on_register.is_some();
    #[cfg(all(not(burn_0_22), feature = "distributed"))]
    return grads.is_distributed();
    #[cfg(not(any(burn_0_22, feature = "distributed")))]
    return {
        let _ = grads;
        false
    };
}

/// The shape of data.
pub fn shape_of(data: &TensorData) -> &Shape {
    #[cfg(not(burn_0_22))]
    return &data.shape;
    #[cfg(burn_0_22)]
    return data.shape();
}

/// The dtype of data.
pub fn dtype_of(data: &TensorData) -> DType {
    #[cfg(not(burn_0_22))]
    return data.dtype;
    #[cfg(burn_0_22)]
    return data.dtype();
}

/// What Burn prepares an op with for an operand.
#[cfg(not(burn_0_22))]
#[doc(hidden)]
#[macro_export]
macro_rules! node_of {
    ($operand:expr) => {
        $operand.node.clone()
    };
}

/// What Burn prepares an op with for an operand.
#[cfg(burn_0_22)]
#[doc(hidden)]
#[macro_export]
macro_rules! node_of {
    ($operand:expr) => {
        $operand.node()
    };
}

pub use node_of;

/// Changes the bytes of data on the host.
#[cfg(feature = "flex")]
pub(crate) fn change_bytes(data: &mut TensorData, change: impl FnOnce(&mut [u8])) {
    #[cfg(not(burn_0_22))]
    return change(&mut data.bytes);
    #[cfg(burn_0_22)]
    return TensorData::with_bytes_mut([data], |mut bytes| change(bytes[0]));
}
