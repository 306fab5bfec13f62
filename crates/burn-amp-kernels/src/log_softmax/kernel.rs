use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, one_per_row, storage},
    row::{Row, Share},
    team::{Reduction, Team, over_row, team_index},
};

#[cube(launch, address_type = "dynamic")]
fn log_softmax_kernel<F: Float, O: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    output: &mut Array<Vector<O, N>>,
    log_sum_exp: &mut Array<f32>,
    pitch: usize,
    rows: usize,
    length: usize,
    #[comptime] team: Team,
    #[define(F, O)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let x = Share::<F, N>::new(x, pitch, row, team);

    let mut largest = x.first();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            largest = max(largest, x.at(step));
        }
    }
    let largest = over_row::<N>(largest, Reduction::Max, team);

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += (x.at(step) - Vector::new(largest)).exp();
        }
    }
    let log_sum = over_row::<N>(sum, Reduction::Sum, team).ln();

    if row.leads() {
        log_sum_exp[row.index] = largest + log_sum;
    }
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let value = (x.at(step) - Vector::new(largest)) - Vector::new(log_sum);
            output[row.index * length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Returns the output in `dtype` and the log-sum-exp of each row, along the last dimension.
pub(crate) fn log_softmax<R: CubeRuntime>(
    x: CubeTensor<R>,
    dtype: DType,
) -> (CubeTensor<R>, CubeTensor<R>) {
    let output = empty_on_device_of(&x, x.shape(), dtype);
    let log_sum_exp = empty_on_device_of(&x, one_per_row(&x), DType::F32);
    if x.shape().num_elements() == 0 {
        return (output, log_sum_exp);
    }
    let client = x.client.clone();
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    let dtypes = [storage(x.tensor.dtype), storage(dtype)];
    log_softmax_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &output]),
        plan.vector_size,
        x.array_arg(),
        output.clone().into_array_arg(),
        log_sum_exp.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        plan.team,
        dtypes,
    );
    (output, log_sum_exp)
}

#[cube(launch, address_type = "dynamic")]
fn log_softmax_backward_kernel<F: Float, G: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    log_sum_exp: &Array<f32>,
    grad: &Array<Vector<G, N>>,
    dx: &mut Array<Vector<F, N>>,
    x_pitch: usize,
    grad_pitch: usize,
    rows: usize,
    length: usize,
    #[comptime] team: Team,
    #[define(F, G)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let x = Share::<F, N>::new(x, x_pitch, row, team);
    let grad = Share::<G, N>::new(grad, grad_pitch, row, team);
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
            dx[row.index * length + row.column(step)] = Vector::cast_from(value);
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
    if x.shape().num_elements() == 0 {
        return dx;
    }
    let client = x.client.clone();
    let (x, grad) = (Rows::new(x), Rows::new(grad));
    let log_sum_exp = into_contiguous(log_sum_exp);
    let plan = Plan::new([&x, &grad], KEPT);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    let dtypes = [storage(x.tensor.dtype), storage(grad.tensor.dtype)];
    log_softmax_backward_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &grad.tensor, &dx]),
        plan.vector_size,
        x.array_arg(),
        log_sum_exp.into_array_arg(),
        grad.array_arg(),
        dx.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        grad.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        plan.team,
        dtypes,
    );
    dx
}
