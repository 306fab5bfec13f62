use super::Squares;
use crate::{loss_scale::reference_unscale, prelude::*};

/// Multiplies, squares and sums with Burn's ops, tensor by tensor.
pub fn reference<B: Backend>(squares: Squares<B>) -> FloatTensor<B> {
    let Squares { tensors, scaled_by } = squares;
    let (first, _) = tensors.first().expect("there is a tensor to square");
    let device = B::float_device(first);
    let sums = tensors.into_iter().map(|(tensor, factor)| {
        // burn-cubecl 0.21.0 computes a negative size for an empty operand.
        if tensor.shape().num_elements() == 0 {
            return B::float_zeros(Shape::new([1]), &device, FloatDType::F32);
        }
        let mut tensor = tensor;
        if factor != 1.0 {
            tensor = B::float_mul_scalar(widen::<B>(tensor), factor.into());
        }
        if let Some([before, after]) = &scaled_by {
            tensor = reference_unscale::<B>(tensor, before.clone(), after.clone());
        }
        B::float_sum(B::float_powi_scalar(
            cast::<B>(tensor, DType::F32),
            2.into(),
        ))
    });
    let sum = sums.reduce(B::float_add);
    sum.expect("there is a tensor to square")
}
