use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{BLOCK, INF, LEAST_SCALE, MOST, NAN, blocks};
use crate::cube::{
    names::{Buffer, element, with_element},
    plan::{self, empty_on_device_of, one_each, storage},
};
use crate::finite::EXPONENT;

/// All bits of an F32 but the sign.
const MAGNITUDE: u32 = 0x7fff_ffff;

/// The bit of a NaN that a cast keeps.
const QUIET: u32 = 0x0040_0000;

/// Each unit rounds one block.
#[cube(launch)]
fn pack_kernel<F: Float, I: Int, N: Size>(
    x: &Buffer<Vector<F, N>>,
    codes: &mut Buffer<Vector<I, N>>,
    scales: &mut Buffer<f32>,
    #[comptime] vectors: usize,
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= scales.len() {
        terminate!();
    }
    let first = ABSOLUTE_POS * vectors;
    let end = min(first + vectors, x.len());
    // The bits of magnitudes have their order.
    let mut most = 0u32;
    for at in first..end {
        let vector = Vector::<f32, N>::cast_from(x[at]);
        #[unroll]
        for i in 0..N::value() {
            let bits = f32::to_bits(element::<f32, N>(vector, i)) & MAGNITUDE;
            most = max(most, select(bits < EXPONENT, bits, 0u32));
        }
    }
    let scale = f32::from_bits(most) * comptime!(1.0 / MOST);
    let scale = select(scale < LEAST_SCALE, f32::new(LEAST_SCALE), scale);
    let inverse = 1.0 / scale;
    for at in first..end {
        let vector = Vector::<f32, N>::cast_from(x[at]);
        let mut steps = Vector::<f32, N>::zeroed();
        #[unroll]
        for i in 0..N::value() {
            let bits = f32::to_bits(element::<f32, N>(vector, i));
            let magnitude = bits & MAGNITUDE;
            let step = max(f32::floor(f32::from_bits(magnitude) * inverse + 0.5), 1.0);
            let step = select(magnitude == EXPONENT, f32::new(INF), step);
            let step = select(magnitude == 0u32, f32::new(0.0), step);
            let code = select(bits == magnitude, step, -step);
            let code = select(magnitude > EXPONENT, f32::new(NAN), code);
            steps = with_element::<f32, N>(steps, i, code);
        }
        codes[at] = Vector::<I, N>::cast_from(steps);
    }
    scales[ABSOLUTE_POS] = scale;
}

/// Each unit writes one vector, whose elements are in one block.
#[cube(launch)]
fn unpack_kernel<F: Float, I: Int, N: Size>(
    codes: &Buffer<Vector<I, N>>,
    scales: &Buffer<f32>,
    output: &mut Buffer<Vector<F, N>>,
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let scale = scales[ABSOLUTE_POS * N::value() / BLOCK];
    let codes = Vector::<f32, N>::cast_from(codes[ABSOLUTE_POS]);
    let mut values = codes * Vector::new(scale);
    #[unroll]
    for i in 0..N::value() {
        let code = element::<f32, N>(codes, i);
        let is_special = f32::abs(code) >= INF;
        // inf, or NaN, with the sign of the code.
        let bits = select(code == NAN, EXPONENT | QUIET, EXPONENT);
        let bits = select(code < 0.0, bits | !MAGNITUDE, bits);
        let value = element::<f32, N>(values, i);
        let value = select(is_special, f32::from_bits(bits), value);
        values = with_element::<f32, N>(values, i, value);
    }
    output[ABSOLUTE_POS] = Vector::<F, N>::cast_from(values);
}

/// The elements per vector that a float dtype, a block and a tensor allow.
fn vector_size<R: CubeRuntime>(x: &CubeTensor<R>, dtype: DType) -> usize {
    plan::vector_size(&x.client, dtype.size(), &[BLOCK, x.meta.num_elements()])
}

/// Returns the codes and the scales of a contiguous tensor.
pub(super) fn pack<R: CubeRuntime>(x: CubeTensor<R>) -> (CubeTensor<R>, CubeTensor<R>) {
    let blocks = blocks(x.meta.shape());
    let codes = empty_on_device_of(&x, x.shape(), DType::I8);
    let scales = empty_on_device_of(&x, Shape::new([blocks]), DType::F32);
    let (cubes, units) = one_each(&codes.client, blocks);
    let (dtype, vector_size) = (storage(x.dtype), vector_size(&x, x.dtype));
    pack_kernel::launch::<R>(
        &codes.client,
        cubes,
        units,
        vector_size,
        x.into_array_arg(),
        codes.clone().into_array_arg(),
        scales.clone().into_array_arg(),
        BLOCK / vector_size,
        [dtype, storage(DType::I8)],
    );
    (codes, scales)
}

/// Returns the values of contiguous codes.
pub(super) fn unpack<R: CubeRuntime>(
    codes: CubeTensor<R>,
    scales: CubeTensor<R>,
    dtype: DType,
) -> CubeTensor<R> {
    let output = empty_on_device_of(&codes, codes.shape(), dtype);
    let vector_size = vector_size(&codes, dtype);
    let vectors = codes.meta.num_elements() / vector_size;
    let (cubes, units) = one_each(&output.client, vectors);
    unpack_kernel::launch::<R>(
        &output.client,
        cubes,
        units,
        vector_size,
        codes.into_array_arg(),
        into_contiguous(scales).into_array_arg(),
        output.clone().into_array_arg(),
        [storage(dtype), storage(DType::I8)],
    );
    output
}
