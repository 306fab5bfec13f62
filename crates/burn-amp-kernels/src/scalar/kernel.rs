use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{
    calculate_cube_count_elemwise, prelude::*, std::tensor::layout::linear::LinearView,
    tensor_vector_size_parallel,
};

use super::ScalarOp;
use crate::cube::plan::{address_type, empty_on_device_of, storage};

#[cube(launch, address_type = "dynamic")]
fn scalar_kernel<F: Float, N: Size>(
    x: &LinearView<Vector<F, N>>,
    output: &mut LinearView<Vector<F, N>, ReadWrite>,
    scalar: f32,
    #[comptime] op: ScalarOp,
    #[define(F)] _dtype: StorageType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    let scalar = Vector::<f32, N>::new(scalar);
    let result = match op {
        ScalarOp::Add => x + scalar,
        ScalarOp::Sub => x - scalar,
        ScalarOp::Mul => x * scalar,
        ScalarOp::Div => x / scalar,
        ScalarOp::LeakyRelu => select_many(x.less_than(Vector::new(0.0)), x * scalar, x),
    };
    output[ABSOLUTE_POS] = Vector::cast_from(result);
}

/// Launches the op.
pub(crate) fn scalar<R: CubeRuntime>(x: CubeTensor<R>, op: ScalarOp, scalar: f32) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    let elements = x.meta.num_elements();
    if elements == 0 {
        return output;
    }
    let client = x.client.clone();
    let vector_size = tensor_vector_size_parallel(
        client.io_optimized_vector_sizes(x.dtype.size()),
        x.meta.shape(),
        x.meta.strides(),
        x.meta.rank() - 1,
    );
    let vectors = elements / vector_size;
    let units = CubeDim::new(&client, vectors);
    let cubes = calculate_cube_count_elemwise(&client, vectors, units);
    let (addresses, dtype) = (address_type([&x, &output]), storage(x.dtype));
    scalar_kernel::launch::<R>(
        &client,
        cubes,
        units,
        addresses,
        vector_size,
        x.into_linear_view(),
        output.clone().into_linear_view(),
        scalar,
        op,
        dtype,
    );
    output
}
