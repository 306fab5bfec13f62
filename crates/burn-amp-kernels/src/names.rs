//! What Burn 0.22 calls otherwise, by one name for both versions. The other sources of this crate compile with both.

use burn_backend::{
    Backend,
    tensor::{Device, FloatTensor, IntTensor},
};

pub(crate) fn device_of<B: Backend>(tensor: &FloatTensor<B>) -> Device<B> {
    B::float_device(tensor)
}

pub(crate) fn int_device_of<B: Backend>(tensor: &IntTensor<B>) -> Device<B> {
    B::int_device(tensor)
}

/// Adds values to the elements of a tensor that have the given indices along a dimension.
pub(crate) fn scatter_add<B: Backend>(
    dim: usize,
    tensor: FloatTensor<B>,
    indices: IntTensor<B>,
    values: FloatTensor<B>,
) -> FloatTensor<B> {
    B::float_scatter_add(dim, tensor, indices, values)
}

/// What Burn prepares an op with for an operand.
macro_rules! node_of {
    ($operand:expr) => {
        $operand.node.clone()
    };
}

pub(crate) use node_of;
