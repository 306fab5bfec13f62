use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::words;
use crate::cube::{
    names::{Buffer, OwnedBuffer, element, with_element},
    plan::{empty_on_device_of, one_each, storage, vector_size},
};

/// The bits of a word.
pub(crate) const BITS: usize = 32;

/// Each unit packs one word, which has the bits of several vectors.
#[cube(launch)]
fn not_positive_kernel<F: Float, N: Size>(
    x: &Buffer<Vector<F, N>>,
    mask: &mut Buffer<u32>,
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
            for j in 0..N::value() {
                let is_not_positive = select(element::<f32, N>(vector, j) <= 0.0, 1u32, 0u32);
                word |= is_not_positive << ((i * N::value() + j) as u32);
            }
        }
    }
    mask[ABSOLUTE_POS] = word;
}

/// One unit writes one vector, whose bits are in one word. A sum is computed in F32.
#[cube(launch)]
fn zeroed_kernel<F: Float, P: Float, O: Float, N: Size>(
    x: &Buffer<Vector<F, N>>,
    plus: &ComptimeOption<OwnedBuffer<Vector<P, N>>>,
    mask: &Buffer<u32>,
    output: &mut Buffer<Vector<O, N>>,
    #[define(F, P, O)] _dtypes: [StorageType; 3],
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let first = ABSOLUTE_POS * N::value();
    let bits = mask[first / BITS] >> ((first % BITS) as u32);
    let x = x[ABSOLUTE_POS];
    #[comptime]
    let x = match plus {
        ComptimeOption::Some(plus) => Vector::<O, N>::cast_from(
            Vector::<f32, N>::cast_from(x) + Vector::<f32, N>::cast_from(plus[ABSOLUTE_POS]),
        ),
        ComptimeOption::None => Vector::<O, N>::cast_from(x),
    };
    let mut result = Vector::<O, N>::zeroed();
    #[unroll]
    for i in 0..N::value() {
        let is_zeroed = (bits >> (i as u32)) & 1u32 == 1u32;
        let value = select(is_zeroed, O::from_int(0), element::<O, N>(x, i));
        result = with_element::<O, N>(result, i, value);
    }
    output[ABSOLUTE_POS] = result;
}

/// Launches the packing of the mask of `x`.
pub(crate) fn not_positive<R: CubeRuntime>(x: CubeTensor<R>) -> CubeTensor<R> {
    let words = words(x.meta.num_elements());
    let mask = empty_on_device_of(&x, Shape::new([words]), DType::U32);
    if words == 0 {
        return mask;
    }
    let (cubes, units) = one_each(&mask.client, words);
    let vector_size = vector_size(&x.client, x.dtype.size(), &[x.meta.num_elements()]);
    let dtype = storage(x.dtype);
    not_positive_kernel::launch::<R>(
        &mask.client,
        cubes,
        units,
        vector_size,
        into_contiguous(x).into_array_arg(),
        mask.clone().into_array_arg(),
        BITS / vector_size,
        dtype,
    );
    mask
}

/// Launches the copy of `x`, or of its sum with another tensor, in a dtype, with zeros where the mask has ones.
pub(crate) fn zeroed<R: CubeRuntime>(
    x: CubeTensor<R>,
    plus: Option<CubeTensor<R>>,
    mask: CubeTensor<R>,
    dtype: DType,
) -> CubeTensor<R> {
    let plus_dtype = plus.as_ref().map_or(x.dtype, |plus| plus.dtype);
    let output = empty_on_device_of(&x, x.shape(), dtype);
    let elements = x.meta.num_elements();
    if elements == 0 {
        return output;
    }
    let dtypes = [x.dtype, plus_dtype, dtype];
    let widest = dtypes.map(|dtype| dtype.size()).into_iter().max();
    let vector_size = vector_size(&x.client, widest.unwrap_or(1), &[elements]);
    let (cubes, units) = one_each(&output.client, elements / vector_size);
    zeroed_kernel::launch::<R>(
        &output.client,
        cubes,
        units,
        vector_size,
        into_contiguous(x).into_array_arg(),
        plus.map(|plus| into_contiguous(plus).into_array_arg())
            .into(),
        into_contiguous(mask).into_array_arg(),
        output.clone().into_array_arg(),
        dtypes.map(storage),
    );
    output
}
