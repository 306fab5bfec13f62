use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::Activation;
use crate::cube::{
    layout::{ordered_as, restored_as},
    plan::{address_type, empty_on_device_of, storage},
};

/// One unit computes one vector.
#[cube(launch, address_type = "dynamic")]
fn activation_kernel<X: Float, O: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    output: &mut Array<Vector<O, N>>,
    #[comptime] activation: Activation,
    #[define(X, O)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    output[ABSOLUTE_POS] = Vector::cast_from(value::<N>(x, activation));
}

/// One unit computes one vector.
#[cube(launch, address_type = "dynamic")]
fn activation_backward_kernel<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &Array<Vector<G, N>>,
    dx: &mut Array<Vector<X, N>>,
    #[comptime] activation: Activation,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= dx.len() {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    let grad = Vector::<f32, N>::cast_from(grad[ABSOLUTE_POS]);
    dx[ABSOLUTE_POS] = Vector::cast_from(slope::<N>(x, activation) * grad);
}

#[cube]
fn value<N: Size>(x: Vector<f32, N>, #[comptime] activation: Activation) -> Vector<f32, N> {
    match activation {
        Activation::Gelu => {
            let erf = (x * Vector::new(0.707_106_77)).erf();
            x * (erf + Vector::new(1.0)) * Vector::new(0.5)
        }
        Activation::Sigmoid => {
            // CubeCL 0.10 writes `-` of a vector as it stands, which is no CUDA.
            let small = (x.abs() * Vector::new(-1.0)).exp();
            let large = Vector::new(1.0) / (small + Vector::new(1.0));
            select_many(x.less_than(Vector::new(0.0)), small * large, large)
        }
        Activation::Tanh => x.tanh(),
    }
}

/// The derivative of the function at `x`. Near the ends of the function's range it follows from the rounded F32 value, as the
/// gradient of `log(1 - tanh(x))` is a quotient of both.
#[cube]
fn slope<N: Size>(x: Vector<f32, N>, #[comptime] activation: Activation) -> Vector<f32, N> {
    match activation {
        // Φ(x) + x φ(x)
        Activation::Gelu => {
            let erf = (x * Vector::new(0.707_106_77)).erf();
            let density = (x * x * Vector::new(-0.5)).exp() * Vector::new(0.398_942_3);
            (erf + Vector::new(1.0)) * Vector::new(0.5) + x * density
        }
        Activation::Sigmoid => {
            let sigmoid = value::<N>(x, activation);
            sigmoid * (Vector::new(1.0) - sigmoid)
        }
        Activation::Tanh => {
            let tanh = x.tanh();
            (Vector::new(1.0) - tanh) * (Vector::new(1.0) + tanh)
        }
    }
}

/// Returns the elements per vector in which `x` and a result of the same shape in `dtype` are read and written.
fn vector_size<R: CubeRuntime>(x: &CubeTensor<R>, dtype: DType) -> usize {
    let elements = x.meta.num_elements();
    x.client
        .io_optimized_vector_sizes(x.dtype.size().max(dtype.size()))
        .find(|size| elements.is_multiple_of(*size))
        .unwrap_or(1)
}

/// Launches the function.
pub(crate) fn activation<R: CubeRuntime>(
    x: CubeTensor<R>,
    activation: Activation,
    dtype: DType,
) -> CubeTensor<R> {
    let ordered = ordered_as(x.clone(), &x);
    let output = empty_on_device_of(&x, ordered.shape(), dtype);
    let (client, vector_size) = (x.client.clone(), vector_size(&x, dtype));
    let vectors = x.meta.num_elements() / vector_size;
    let units = CubeDim::new(&client, vectors);
    activation_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, vectors, units),
        units,
        address_type([&x, &output]),
        vector_size,
        ordered.into_array_arg(),
        output.clone().into_array_arg(),
        activation,
        [x.dtype, dtype].map(storage),
    );
    restored_as(output, &x)
}

/// Launches the gradient with respect to `x`.
pub(crate) fn activation_backward<R: CubeRuntime>(
    x: CubeTensor<R>,
    grad: CubeTensor<R>,
    activation: Activation,
) -> CubeTensor<R> {
    let ordered = ordered_as(x.clone(), &x);
    let dx = empty_on_device_of(&x, ordered.shape(), x.dtype);
    let (client, vector_size) = (x.client.clone(), vector_size(&x, grad.dtype));
    let vectors = x.meta.num_elements() / vector_size;
    let units = CubeDim::new(&client, vectors);
    let dtypes = [x.dtype, grad.dtype].map(storage);
    activation_backward_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, vectors, units),
        units,
        address_type([&x, &dx]),
        vector_size,
        ordered.into_array_arg(),
        ordered_as(grad, &x).into_array_arg(),
        dx.clone().into_array_arg(),
        activation,
        dtypes,
    );
    restored_as(dx, &x)
}
