use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    names::Buffer,
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of},
    row::{AllRows, RowsOf},
    team::{Reduction, over_row},
};

#[cube(launch, address_type = "dynamic")]
fn log_softmax_backward_kernel<F: Float, G: Float, N: Size>(
    x: &RowsOf<F, N>,
    log_sum_exp: &Buffer<f32>,
    grad: &RowsOf<G, N>,
    dx: &mut Buffer<Vector<F, N>>,
    rows: AllRows,
    #[define(F, G)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(rows.team);
    let row = rows.of_team();
    let x = x.share(row);
    let grad = grad.share(row);
    let log_sum_exp = Vector::new(log_sum_exp[row.index]);

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += grad.at(step);
        }
    }
    let sum = Vector::new(over_row::<N>(sum, Reduction::Sum, team));

    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let probability = (x.at(step) - log_sum_exp).exp();
            let value = grad.at(step) - probability * sum;
            dx[row.index * rows.length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Computes the gradient of log-softmax along the last dimension.
pub(crate) fn log_softmax_backward<R: CubeRuntime>(
    x: CubeTensor<R>,
    log_sum_exp: CubeTensor<R>,
    grad: CubeTensor<R>,
) -> CubeTensor<R> {
    let dx = empty_on_device_of(&x, x.shape(), x.dtype);
    if dx.meta.num_elements() == 0 {
        return dx;
    }
    let (x, grad) = (Rows::new(x), Rows::new(grad));
    let plan = Plan::new([&x, &grad], KEPT);
    let (cubes, units) = plan.geometry(&dx.client);
    log_softmax_backward_kernel::launch(
        &dx.client,
        cubes,
        units,
        address_type([&x.tensor, &grad.tensor, &dx]),
        plan.vector_size,
        x.arg(&plan),
        into_contiguous(log_sum_exp).into_array_arg(),
        grad.arg(&plan),
        dx.clone().into_array_arg(),
        plan.all_rows(),
        [x.storage(), grad.storage()],
    );
    dx
}
