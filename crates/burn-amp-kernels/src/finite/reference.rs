use burn_backend::{
    Backend, FloatDType, Shape, TensorMetadata, get_device_settings, tensor::FloatTensor,
};

/// In Burn's ops: `abs(x) <= largest finite` for all. A comparison with NaN is false in every backend.
///
/// # Panics
///
/// Without tensors: flags live on the device of the first.
pub fn reference<B: Backend>(tensors: Vec<FloatTensor<B>>) -> FloatTensor<B> {
    let device = B::float_device(tensors.first().expect("there is a tensor to check"));
    let mut flags: Vec<_> = tensors
        .into_iter()
        .map(|tensor| match tensor.shape().num_elements() {
            0 => B::float_zeros(Shape::new([1]), &device, FloatDType::F32),
            _ => not_finite::<B>(tensor),
        })
        .collect();
    match flags.len() {
        1 => flags.remove(0),
        _ => B::float_cat(flags, 0),
    }
}

/// One flag, in F32.
fn not_finite<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let max = tensor
        .dtype()
        .finfo()
        .expect("float tensors have a float dtype")
        .max;
    let bool_dtype = get_device_settings::<B>(&B::float_device(&tensor)).bool_dtype;
    let bounded = B::float_lower_equal_elem(B::float_abs(tensor), max.into(), bool_dtype);
    let flag = B::bool_not(B::bool_all(bounded));
    B::bool_into_float(flag, FloatDType::F32)
}
