use crate::{affine::Affine, prelude::*};

/// Multiplies with Burn's op, and adds the bias in F32.
pub fn reference<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
) -> FloatTensor<B> {
    let product = B::float_matmul(x, weight);
    let Some(bias) = bias else {
        return product;
    };
    let (dtype, shape) = (FloatDType::from(product.dtype()), product.shape());
    let bias = B::float_reshape(bias, Shape::new([1, shape[1]]));
    // A backend that fuses makes one kernel of the sum and what follows.
    if B::fuses_elementwise() {
        return B::float_cast(B::float_add(widen::<B>(product), bias), dtype);
    }
    let plus_bias = Affine {
        after: Some(bias),
        ..Affine::identity(shape)
    };
    crate::affine::forward::<B>(product, plus_bias, None, dtype)
}

/// Multiplies with Burn's op, which rounds the product to the dtype of its operands, and casts it.
pub fn reference_matmul<B: Backend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    widen::<B>(B::float_matmul(lhs, rhs))
}

/// Adds the rows with Burn's op, after a cast.
pub fn reference_sums<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let columns = Shape::new([x.shape()[1]]);
    B::float_reshape(sum_dim::<B>(widen::<B>(x), 0), columns)
}
