use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, storage},
    row::{Row, Share},
    team::{Reduction, Team, over_row, team_index},
};

#[cube(launch, address_type = "dynamic")]
fn softmax_kernel<F: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    output: &mut Array<Vector<F, N>>,
    pitch: usize,
    rows: usize,
    length: usize,
    #[comptime] team: Team,
    #[define(F)] _dtype: StorageType,
) {
    let row = Row::new(team_index(team), rows, length, team);
    let mut x = Share::<F, N>::new(x, pitch, row, team);

    let mut largest = x.first();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            largest = max(largest, x.at(step));
        }
    }
    let largest = Vector::new(over_row::<N>(largest, Reduction::Max, team));

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let exp = (x.at(step) - largest).exp();
            sum += exp;
            x.keep(step, exp);
        }
    }
    let factor = Vector::new(1.0 / over_row::<N>(sum, Reduction::Sum, team));

    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let exp = if comptime!(team.kept > 0) {
                x.at(step)
            } else {
                (x.at(step) - largest).exp()
            };
            output[row.index * length + row.column(step)] = Vector::cast_from(exp * factor);
        }
    }
}

/// Computes softmax along the last dimension.
pub(crate) fn softmax<R: CubeRuntime>(x: CubeTensor<R>) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    if x.shape().num_elements() == 0 {
        return output;
    }
    let client = x.client.clone();
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    softmax_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &output]),
        plan.vector_size,
        x.array_arg(),
        output.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        plan.team,
        storage(output.dtype),
    );
    output
}

#[cube(launch, address_type = "dynamic")]
fn softmax_backward_kernel<F: Float, G: Float, N: Size>(
    output: &Array<Vector<F, N>>,
    grad: &Array<Vector<G, N>>,
    dx: &mut Array<Vector<F, N>>,
    output_pitch: usize,
    grad_pitch: usize,
    rows: usize,
    length: usize,
    #[comptime] team: Team,
    #[define(F, G)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let output = Share::<F, N>::new(output, output_pitch, row, team);
    let grad = Share::<G, N>::new(grad, grad_pitch, row, team);

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += grad.at(step) * output.at(step);
        }
    }
    let sum = Vector::new(over_row::<N>(sum, Reduction::Sum, team));

    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let value = output.at(step) * (grad.at(step) - sum);
            dx[row.index * length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Computes the gradient of softmax along the last dimension.
pub(crate) fn softmax_backward<R: CubeRuntime>(
    output: CubeTensor<R>,
    grad: CubeTensor<R>,
) -> CubeTensor<R> {
    let dx = empty_on_device_of(&output, output.shape(), output.dtype);
    if output.shape().num_elements() == 0 {
        return dx;
    }
    let client = output.client.clone();
    let (output, grad) = (Rows::new(output), Rows::new(grad));
    let plan = Plan::new([&output, &grad], KEPT);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    let dtypes = [storage(output.tensor.dtype), storage(grad.tensor.dtype)];
    softmax_backward_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&output.tensor, &grad.tensor, &dx]),
        plan.vector_size,
        output.array_arg(),
        grad.array_arg(),
        dx.clone().into_array_arg(),
        output.pitch / plan.vector_size,
        grad.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        plan.team,
        dtypes,
    );
    dx
}
