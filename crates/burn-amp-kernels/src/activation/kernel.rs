use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::Activation;
use crate::cube::{
    layout::{in_order, order_of, out_of_order},
    names::{Buffer, OwnedBuffer, are_less},
    plan::{address_type, empty_on_device_of, one_each, storage, vector_size},
};

/// One unit computes one vector: of the function, or with a gradient of the gradient with respect to `x`.
#[cube(launch, address_type = "dynamic")]
fn activation_kernel<X: Float, G: Float, O: Float, N: Size>(
    x: &Buffer<Vector<X, N>>,
    grad: &ComptimeOption<OwnedBuffer<Vector<G, N>>>,
    output: &mut Buffer<Vector<O, N>>,
    #[comptime] activation: Activation,
    #[define(X, G, O)] _dtypes: [StorageType; 3],
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    #[comptime]
    let result = match grad {
        ComptimeOption::Some(grad) => {
            let grad = Vector::<f32, N>::cast_from(grad[ABSOLUTE_POS]);
            slope::<N>(x, activation) * grad
        }
        ComptimeOption::None => value::<N>(x, activation),
    };
    output[ABSOLUTE_POS] = Vector::cast_from(result);
}

#[cube]
pub(crate) fn value<N: Size>(
    x: Vector<f32, N>,
    #[comptime] activation: Activation,
) -> Vector<f32, N> {
    match activation {
        Activation::Gelu => {
            let erf = (x * Vector::new(0.707_106_77)).erf();
            x * (erf + Vector::new(1.0)) * Vector::new(0.5)
        }
        Activation::Sigmoid => {
            // CubeCL 0.10 writes `-` of a vector as it stands, which is no CUDA.
            let small = (x.abs() * Vector::new(-1.0)).exp();
            let large = Vector::new(1.0) / (small + Vector::new(1.0));
            select_many(are_less::<N>(x, Vector::new(0.0)), small * large, large)
        }
        Activation::Tanh => x.tanh(),
    }
}

/// The derivative of the function at `x`. Near the ends of the function's range it follows from the rounded F32 value, as the
/// gradient of `log(1 - tanh(x))` is a quotient of both.
#[cube]
pub(crate) fn slope<N: Size>(
    x: Vector<f32, N>,
    #[comptime] activation: Activation,
) -> Vector<f32, N> {
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

/// Launches the function, or with the gradient of its result the gradient with respect to `x`, in the order of memory of `x`.
pub(crate) fn activation<R: CubeRuntime>(
    x: CubeTensor<R>,
    grad: Option<CubeTensor<R>>,
    activation: Activation,
    dtype: DType,
) -> CubeTensor<R> {
    let order = order_of(&x);
    let ordered = in_order(x.clone(), &order);
    let output = empty_on_device_of(&x, ordered.shape(), dtype);
    let dtypes = [
        x.dtype,
        grad.as_ref().map_or(x.dtype, |grad| grad.dtype),
        dtype,
    ];
    let widest = dtypes.iter().map(DType::size).fold(0, usize::max);
    let elements = x.meta.num_elements();
    let vector_size = vector_size(&x.client, widest, &[elements]);
    let (cubes, units) = one_each(&x.client, elements / vector_size);
    let grad = grad.map(|grad| in_order(grad, &order).into_array_arg());
    activation_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([&x, &output]),
        vector_size,
        ordered.into_array_arg(),
        grad.into(),
        output.clone().into_array_arg(),
        activation,
        dtypes.map(storage),
    );
    out_of_order(output, &order)
}
