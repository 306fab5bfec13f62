use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, ops::numeric::zeros_client, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    lists::{chunks, empty_f32_like},
    names::{Buffer, TensorView, TensorViewMut, element},
    plan::storage,
};

/// The exponent bits of an F32. All of them are set only in inf and NaN.
pub(crate) const EXPONENT: u32 = 0x7f80_0000;

/// Every unit strides over all tensors. Units that find something write the same value, so they need no atomics. With a factor
/// it writes each vector that it reads times the factor.
#[cube(launch)]
fn not_finite_kernel<F: Numeric, N: Size>(
    tensors: &Sequence<TensorView<Vector<F, N>>>,
    outputs: &mut Sequence<TensorViewMut<Vector<f32, N>>>,
    factors: &Sequence<f32>,
    indices: &Sequence<u32>,
    flags: &mut Buffer<f32>,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..tensors.len() {
        let tensor = tensors.index(at);
        let mut worst = 0u32;
        let mut position = ABSOLUTE_POS;
        while position < tensor.shape() {
            let values = Vector::<f32, N>::cast_from(tensor.read(position));
            #[unroll]
            for i in 0..N::value() {
                worst = max(worst, f32::to_bits(element::<f32, N>(values, i)) & EXPONENT);
            }
            #[unroll]
            for factor in 0..factors.len() {
                let output = outputs.index_mut(at);
                output.write(position, values * Vector::new(*factors.index(factor)));
            }
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
        if worst == EXPONENT {
            flags[*indices.index(at) as usize] = 1.0;
        }
    }
}

/// Launches the check of `tensors`, and their products with a factor. Returns the products, if there is a factor, and then
/// the flags; both are in the order of the tensors.
pub(crate) fn not_finite<R: CubeRuntime>(
    tensors: Vec<CubeTensor<R>>,
    factor: Option<f32>,
) -> Vec<CubeTensor<R>> {
    let first = tensors.first().expect("there is a tensor to check");
    let (client, device) = (first.client.clone(), first.device.clone());
    let shape = Shape::new([tensors.len()]);
    let flags = zeros_client(client.clone(), device, shape, DType::F32);
    let mut results: Vec<_> = match factor {
        Some(_) => tensors.iter().map(empty_f32_like).collect(),
        None => Vec::new(),
    };
    for chunk in chunks(tensors, 1 + usize::from(factor.is_some())) {
        let (cubes, units) = chunk.geometry(&client);
        let mut views = SequenceArg::new();
        let mut outputs = SequenceArg::new();
        let mut indices = SequenceArg::new();
        for tensor in chunk.tensors {
            if factor.is_some() {
                let (result, values) = tensor.empty_like();
                results[tensor.index] = result;
                outputs.push(values.into_linear_view());
            }
            views.push(tensor.values.into_linear_view());
            indices.push(tensor.index as u32);
        }
        not_finite_kernel::launch::<R>(
            &client,
            cubes,
            units,
            chunk.vector_size,
            views,
            outputs,
            factor.into_iter().collect(),
            indices,
            flags.clone().into_array_arg(),
            storage(chunk.dtype),
        );
    }
    results.push(flags);
    results
}
