use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::words;
use crate::cube::plan::storage;

/// The bits of a word.
const BITS: usize = 32;

/// Each unit packs one word, which has the bits of several vectors.
#[cube(launch)]
fn not_positive_kernel<F: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    mask: &mut Array<u32>,
    #[comptime] vectors: usize,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= mask.len() {
        terminate!();
    }
    let mut word = 0u32;
    #[unroll]
    for i in 0..vectors {
        let at = ABSOLUTE_POS * vectors + i;
        if at < x.len() {
            let vector = Vector::<f32, N>::cast_from(x[at]);
            #[unroll]
            for element in 0..N::value() {
                let is_not_positive = select(vector[element] <= 0.0, 1u32, 0u32);
                word |= is_not_positive << ((i * N::value() + element) as u32);
            }
        }
    }
    mask[ABSOLUTE_POS] = word;
}

/// One unit writes one vector, whose bits are in one word.
#[cube(launch)]
fn zeroed_kernel<F: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    mask: &Array<u32>,
    output: &mut Array<Vector<F, N>>,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let first = ABSOLUTE_POS * N::value();
    let bits = mask[first / BITS] >> ((first % BITS) as u32);
    let x = x[ABSOLUTE_POS];
    let mut result = Vector::<F, N>::zeroed();
    #[unroll]
    for element in 0..N::value() {
        let is_zeroed = (bits >> (element as u32)) & 1u32 == 1u32;
        result[element] = select(is_zeroed, F::from_int(0), x[element]);
    }
    output[ABSOLUTE_POS] = result;
}

/// Returns the elements per vector in which `x` is read and written.
fn vector_size<R: CubeRuntime>(x: &CubeTensor<R>) -> usize {
    let elements = x.meta.num_elements();
    x.client
        .io_optimized_vector_sizes(x.dtype.size())
        .find(|size| elements.is_multiple_of(*size))
        .unwrap_or(1)
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
    let (dtype, vector_size) = (storage(x.dtype), vector_size(&x));
    not_positive_kernel::launch::<R>(
        &client,
        count,
        dim,
        vector_size,
        into_contiguous(x).into_array_arg(),
        mask.clone().into_array_arg(),
        BITS / vector_size,
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
    let (dtype, vector_size) = (storage(x.dtype), vector_size(&x));
    let vectors = elements / vector_size;
    let dim = CubeDim::new(&client, vectors);
    let count = calculate_cube_count_elemwise(&client, vectors, dim);
    zeroed_kernel::launch::<R>(
        &client,
        count,
        dim,
        vector_size,
        into_contiguous(x).into_array_arg(),
        into_contiguous(mask).into_array_arg(),
        output.clone().into_array_arg(),
        dtype,
    );
    output
}
