//! A sample of a tensor's values.

use burn_backend::{Backend, Shape, Slice, TensorMetadata, tensor::FloatTensor};

/// The number of values in a sample, at most; they are evenly apart.
const VALUES: usize = 4096;

/// Returns up to 4096 values of a tensor, evenly apart, as a vector on its device.
pub fn of<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let count = tensor.shape().num_elements();
    let all = B::float_reshape(tensor, Shape::from([count]));
    match count.div_ceil(VALUES) {
        0 | 1 => all,
        step => B::float_slice(all, &[Slice::new(0, None, step as isize)]),
    }
}
