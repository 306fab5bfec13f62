use burn_backend::{Backend, get_device_settings, tensor::FloatTensor};

use super::SignMask;

/// Compares with Burn's op.
pub fn reference<B: Backend>(x: FloatTensor<B>) -> SignMask<B> {
    let bool_dtype = get_device_settings::<B>(&B::float_device(&x)).bool_dtype;
    SignMask::Bools(B::float_lower_equal_elem(x, 0f32.into(), bool_dtype))
}

/// Fills with Burn's op.
///
/// # Panics
///
/// Panics if the mask is in bits, which only the backend that made it can read.
pub fn reference_zeroed<B: Backend>(x: FloatTensor<B>, mask: SignMask<B>) -> FloatTensor<B> {
    let SignMask::Bools(mask) = mask else {
        unreachable!("a mask is in bits only if the backend has its own way to apply it")
    };
    B::float_mask_fill(x, mask, 0f32.into())
}
