use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, ops::numeric::zeros_client, tensor::CubeTensor};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use crate::{
    cube::lists::{chunks, empty_f32_like},
    finite::{EXPONENT, worst_exponent},
};

/// Works like the kernel of the [finite check](crate::finite), and writes each vector that it reads times the factor.
#[cube(launch)]
fn unscale_kernel<F: Numeric, N: Size>(
    tensors: &Sequence<LinearView<Vector<F, N>>>,
    outputs: &mut Sequence<LinearView<Vector<f32, N>, ReadWrite>>,
    indices: &Sequence<u32>,
    flags: &mut Array<f32>,
    factor: f32,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..tensors.len() {
        let tensor = tensors.index(at);
        let output = outputs.index_mut(at);
        let mut worst = 0u32;
        let mut position = ABSOLUTE_POS;
        while position < tensor.shape() {
            let values = Vector::<f32, N>::cast_from(tensor[position]);
            worst = worst_exponent::<N>(values, worst);
            output[position] = values * Vector::new(factor);
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
        if worst == EXPONENT {
            flags[*indices.index(at) as usize] = 1.0;
        }
    }
}

/// Launches the products of `tensors`; returns them in their order, then the flags.
pub(crate) fn unscale<R: CubeRuntime>(
    tensors: Vec<CubeTensor<R>>,
    factor: f32,
) -> Vec<CubeTensor<R>> {
    let first = tensors.first().expect("there is a tensor to unscale");
    let client = first.client.clone();
    let shape = Shape::new([tensors.len()]);
    let flags = zeros_client(client.clone(), first.device.clone(), shape, DType::F32);
    let mut results: Vec<_> = tensors.iter().map(empty_f32_like).collect();
    for chunk in chunks(tensors, 2) {
        let (cubes, units) = chunk.geometry(&client);
        let mut views = SequenceArg::new();
        let mut outputs = SequenceArg::new();
        let mut indices = SequenceArg::new();
        for tensor in chunk.tensors {
            let (result, values) = tensor.empty_like();
            results[tensor.index] = result;
            views.push(tensor.values.into_linear_view());
            outputs.push(values.into_linear_view());
            indices.push(tensor.index as u32);
        }
        unscale_kernel::launch::<R>(
            &client,
            cubes,
            units,
            chunk.vector_size,
            views,
            outputs,
            indices,
            flags.clone().into_array_arg(),
            factor,
            chunk.dtype.into(),
        );
    }
    results.push(flags);
    results
}
