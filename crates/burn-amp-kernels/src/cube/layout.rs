//! Tensors in the order of memory of another one.

use burn_backend::{Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};

/// The order of a tensor's dimensions in memory, outermost first.
pub(crate) fn order_of<R: CubeRuntime>(x: &CubeTensor<R>) -> Vec<usize> {
    order_in_memory(x.meta.shape(), x.meta.strides())
}

/// Permutes a tensor to an order of dimensions, and copies it unless it is in that order.
pub(crate) fn in_order<R: CubeRuntime>(tensor: CubeTensor<R>, order: &[usize]) -> CubeTensor<R> {
    contiguous(permute(tensor, order))
}

/// Undoes [`in_order`].
pub(crate) fn out_of_order<R: CubeRuntime>(
    tensor: CubeTensor<R>,
    order: &[usize],
) -> CubeTensor<R> {
    let mut inverse = vec![0; order.len()];
    for (place, dim) in order.iter().enumerate() {
        inverse[*dim] = place;
    }
    with_usual_strides(permute(tensor, &inverse))
}

/// The sizes of a shape in an order of dimensions.
pub(crate) fn permuted(shape: &Shape, order: &[usize]) -> Shape {
    Vec::from_iter(order.iter().map(|dim| shape[*dim])).into()
}

/// Copies a tensor unless its elements are in order.
fn contiguous<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    into_contiguous(with_usual_strides(tensor))
}

/// A tensor whose elements are in order, with the strides of its shape. burn-cubecl copies it where the stride of a dimension of
/// size 1 is another one, as that of a factor `[1, c, 1, 1]` in channels-last order.
fn with_usual_strides<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    if !is_in_order(tensor.meta.shape(), tensor.meta.strides()) {
        return tensor;
    }
    let shape = tensor.shape();
    let CubeTensor {
        client,
        device,
        handle,
        dtype,
        ..
    } = tensor;
    CubeTensor::new_contiguous(client, device, shape, handle, dtype)
}

/// Whether each element follows the one before.
fn is_in_order(shape: &[usize], strides: &[usize]) -> bool {
    let mut next = 1;
    shape.iter().zip(strides).rev().all(|(size, stride)| {
        let follows = *size == 1 || *stride == next;
        next *= size;
        follows
    })
}

/// The dimensions with the largest stride first. Those of size 1 keep their place.
fn order_in_memory(shape: &[usize], strides: &[usize]) -> Vec<usize> {
    let moving: Vec<usize> = (0..shape.len()).filter(|dim| shape[*dim] > 1).collect();
    let mut sorted = moving.clone();
    sorted.sort_by_key(|dim| std::cmp::Reverse(strides[*dim]));
    let mut order: Vec<usize> = (0..shape.len()).collect();
    for (place, dim) in moving.into_iter().zip(sorted) {
        order[place] = dim;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::{is_in_order, order_in_memory};

    #[test]
    fn memory_is_read_in_its_own_order() {
        assert_eq!(
            order_in_memory(&[2, 3, 4, 5], &[60, 20, 5, 1]),
            [0, 1, 2, 3]
        );
        // Channels last.
        assert_eq!(
            order_in_memory(&[2, 3, 4, 5], &[60, 1, 15, 3]),
            [0, 2, 3, 1]
        );
        // The stride of a dimension of size 1 means nothing.
        assert_eq!(order_in_memory(&[2, 1, 5], &[5, 99, 1]), [0, 1, 2]);
    }

    #[test]
    fn a_stride_of_a_dimension_of_size_1_means_nothing() {
        assert!(is_in_order(&[1, 1, 1, 8], &[8, 3, 5, 1]));
        assert!(is_in_order(&[2, 3], &[3, 1]));
        assert!(!is_in_order(&[2, 3], &[4, 1]));
        assert!(!is_in_order(&[3, 2], &[1, 3]));
    }
}
