use crate::prelude::*;

/// Checks with Burn's ops that `abs(x) <= largest finite` for all elements. In every backend a comparison with NaN is
/// false.
///
/// # Panics
///
/// Panics if there are no tensors: the flags are on the device of the first one.
pub fn reference<B: Backend>(tensors: Vec<FloatTensor<B>>) -> FloatTensor<B> {
    let device = B::float_device(tensors.first().expect("there is a tensor to check"));
    let mut flags: Vec<_> = tensors
        .into_iter()
        .map(|tensor| {
            if tensor.shape().num_elements() == 0 {
                B::float_zeros(Shape::new([1]), &device, FloatDType::F32)
            } else {
                not_finite::<B>(tensor)
            }
        })
        .collect();
    if flags.len() == 1 {
        flags.remove(0)
    } else {
        B::float_cat(flags, 0)
    }
}

/// Computes the flag of one tensor, in F32.
fn not_finite<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let finfo = tensor.dtype().finfo();
    let max = finfo.expect("float tensors have a float dtype").max;
    let bool_dtype = bool_dtype::<B>(&tensor);
    let bounded = B::float_lower_equal_elem(B::float_abs(tensor), max.into(), bool_dtype);
    let flag = B::bool_not(B::bool_all(bounded));
    B::bool_into_float(flag, FloatDType::F32)
}
