use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, ops::numeric::zeros_client, tensor::CubeTensor};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use crate::cube::lists::chunks;

/// The exponent bits of an F32. All of them are set only in inf and NaN.
pub(crate) const EXPONENT: u32 = 0x7f80_0000;

/// Returns the largest of `worst` and the exponents of a vector.
#[cube]
pub(crate) fn worst_exponent<N: Size>(vector: Vector<f32, N>, worst: u32) -> u32 {
    let mut worst = worst;
    #[unroll]
    for at in 0..vector.vector_size() {
        worst = max(worst, f32::to_bits(vector[at]) & EXPONENT);
    }
    worst
}

/// Every unit strides over all tensors. Units that find something write the same value, so they need no atomics.
#[cube(launch)]
fn not_finite_kernel<F: Numeric, N: Size>(
    tensors: &Sequence<LinearView<Vector<F, N>>>,
    indices: &Sequence<u32>,
    flags: &mut Array<f32>,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..tensors.len() {
        let tensor = tensors.index(at);
        let mut worst = 0u32;
        let mut position = ABSOLUTE_POS;
        while position < tensor.shape() {
            worst = worst_exponent::<N>(Vector::cast_from(tensor[position]), worst);
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
        if worst == EXPONENT {
            flags[*indices.index(at) as usize] = 1.0;
        }
    }
}

/// Launches the check of `tensors`; the flags are in their order.
pub(crate) fn not_finite<R: CubeRuntime>(tensors: Vec<CubeTensor<R>>) -> CubeTensor<R> {
    let first = tensors.first().expect("there is a tensor to check");
    let client = first.client.clone();
    let shape = Shape::new([tensors.len()]);
    let flags = zeros_client(client.clone(), first.device.clone(), shape, DType::F32);
    for chunk in chunks(tensors, 1) {
        let (cubes, units) = chunk.geometry(&client);
        let mut views = SequenceArg::new();
        let mut indices = SequenceArg::new();
        for tensor in chunk.tensors {
            views.push(tensor.values.into_linear_view());
            indices.push(tensor.index as u32);
        }
        not_finite_kernel::launch::<R>(
            &client,
            cubes,
            units,
            chunk.vector_size,
            views,
            indices,
            flags.clone().into_array_arg(),
            chunk.dtype.into(),
        );
    }
    flags
}
