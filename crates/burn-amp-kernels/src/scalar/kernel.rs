use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::ScalarOp;
use crate::cube::{
    names::{TensorView, TensorViewMut, are_less},
    plan::{address_type, empty_on_device_of, one_each, storage, strided_vector_size},
};

#[cube(launch, address_type = "dynamic")]
fn scalar_kernel<F: Float, N: Size>(
    x: &TensorView<Vector<F, N>>,
    output: &mut TensorViewMut<Vector<F, N>>,
    scalar: f32,
    #[comptime] op: ScalarOp,
    #[define(F)] _dtype: StorageType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(x.read(ABSOLUTE_POS));
    let scalar = Vector::<f32, N>::new(scalar);
    let result = match op {
        ScalarOp::Add => x + scalar,
        ScalarOp::Sub => x - scalar,
        ScalarOp::Mul => x * scalar,
        ScalarOp::Div => x / scalar,
        ScalarOp::LeakyRelu => select_many(are_less::<N>(x, Vector::new(0.0)), x * scalar, x),
    };
    output.write(ABSOLUTE_POS, Vector::cast_from(result));
}

/// Launches the op of a tensor that has elements.
pub(crate) fn scalar<R: CubeRuntime>(x: CubeTensor<R>, op: ScalarOp, scalar: f32) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    let vector_size = strided_vector_size(&x);
    let (cubes, units) = one_each(&output.client, x.meta.num_elements() / vector_size);
    scalar_kernel::launch::<R>(
        &output.client,
        cubes,
        units,
        address_type([&x, &output]),
        vector_size,
        x.into_linear_view(),
        output.clone().into_linear_view(),
        scalar,
        op,
        storage(output.dtype),
    );
    output
}
