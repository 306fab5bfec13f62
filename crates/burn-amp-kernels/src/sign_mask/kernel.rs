use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::words;
use crate::cube::plan::storage;

/// One unit packs one word.
#[cube(launch)]
fn not_positive_kernel<F: Float>(
    x: &Array<F>,
    mask: &mut Array<u32>,
    elements: usize,
    #[define(F)] _dtype: StorageType,
) {
    let at = ABSOLUTE_POS;
    if at < mask.len() {
        let mut word = 0u32;
        #[unroll]
        for bit in 0..32u32 {
            let element = at * 32 + bit as usize;
            if element < elements {
                let is_not_positive = f32::cast_from(x[element]) <= 0.0;
                word |= select(is_not_positive, 1u32, 0u32) << bit;
            }
        }
        mask[at] = word;
    }
}

/// One unit writes one element.
#[cube(launch)]
fn zeroed_kernel<F: Float>(
    x: &Array<F>,
    mask: &Array<u32>,
    output: &mut Array<F>,
    elements: usize,
    #[define(F)] _dtype: StorageType,
) {
    let at = ABSOLUTE_POS;
    if at < elements {
        let is_zeroed = (mask[at / 32] >> ((at % 32) as u32)) & 1u32 == 1u32;
        output[at] = select(is_zeroed, F::from_int(0), x[at]);
    }
}

/// Launches the packing of the mask of `x`.
pub(crate) fn not_positive<R: CubeRuntime>(x: CubeTensor<R>) -> CubeTensor<R> {
    let elements = x.shape().num_elements();
    let client = x.client.clone();
    let shape = Shape::new([words(elements)]);
    let mask = empty_device_contiguous_dtype(client.clone(), x.device.clone(), shape, DType::U32);
    if elements == 0 {
        return mask;
    }
    let dim = CubeDim::new(&client, words(elements));
    let count = calculate_cube_count_elemwise(&client, words(elements), dim);
    let dtype = storage(x.dtype);
    not_positive_kernel::launch::<R>(
        &client,
        count,
        dim,
        into_contiguous(x).into_array_arg(),
        mask.clone().into_array_arg(),
        elements,
        dtype,
    );
    mask
}

/// Launches the copy of `x` with zeros where the mask has ones.
pub(crate) fn zeroed<R: CubeRuntime>(x: CubeTensor<R>, mask: CubeTensor<R>) -> CubeTensor<R> {
    let elements = x.shape().num_elements();
    let client = x.client.clone();
    let output =
        empty_device_contiguous_dtype(client.clone(), x.device.clone(), x.shape(), x.dtype);
    if elements == 0 {
        return output;
    }
    let dim = CubeDim::new(&client, elements);
    let count = calculate_cube_count_elemwise(&client, elements, dim);
    let dtype = storage(x.dtype);
    zeroed_kernel::launch::<R>(
        &client,
        count,
        dim,
        into_contiguous(x).into_array_arg(),
        into_contiguous(mask).into_array_arg(),
        output.clone().into_array_arg(),
        elements,
        dtype,
    );
    output
}
