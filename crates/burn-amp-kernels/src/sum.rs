use burn_backend::{Backend, TensorMetadata, tensor::FloatTensor};

/// Sums along a dimension.
///
/// Burn's Flex 0.21 adds the wrong elements if an F32 tensor is a part of a transposed matrix
/// ([issue 5599](https://github.com/tracel-ai/burn/issues/5599)). A reshape puts such a tensor in order first, and costs
/// nothing for one that is in order.
pub(crate) fn sum_dim<B: Backend>(x: FloatTensor<B>, dim: usize) -> FloatTensor<B> {
    let shape = x.shape();
    B::float_sum_dim(B::float_reshape(x, shape), dim)
}
