use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, storage},
    row::{Row, Share},
    team::{Team, team_index},
};

#[cube(launch, address_type = "dynamic")]
fn log_softmax_at_backward_kernel<F: Float, I: Int, N: Size>(
    x: &Array<Vector<F, N>>,
    log_sum_exp: &Array<f32>,
    targets: &Array<I>,
    grad: &Array<f32>,
    dx: &mut Array<Vector<F, N>>,
    pitch: usize,
    rows: usize,
    length: usize,
    #[comptime] team: Team,
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let x = Share::<F, N>::new(x, pitch, row, team);
    let log_sum_exp = Vector::new(log_sum_exp[row.index]);
    let target = u32::cast_from(targets[row.index]) as usize;
    let grad = grad[row.index];
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let probability = (x.at(step) - log_sum_exp).exp();
            let first = row.column(step) * N::value();
            let mut value = Vector::<f32, N>::zeroed();
            #[unroll]
            for at in 0..N::value() {
                let one_hot = select(first + at == target, 1.0f32, 0.0f32);
                value[at] = (one_hot - probability[at]) * grad;
            }
            dx[row.index * length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Computes the gradient of `x`. `grad` (F32) and the targets have one element per row.
pub(crate) fn log_softmax_at_backward<R: CubeRuntime>(
    x: CubeTensor<R>,
    log_sum_exp: CubeTensor<R>,
    targets: CubeTensor<R>,
    grad: CubeTensor<R>,
) -> CubeTensor<R> {
    let dx = empty_on_device_of(&x, x.shape(), x.dtype);
    if x.shape().num_elements() == 0 {
        return dx;
    }
    let client = x.client.clone();
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    let dtypes = [storage(x.tensor.dtype), storage(targets.dtype)];
    log_softmax_at_backward_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &dx]),
        plan.vector_size,
        x.array_arg(),
        into_contiguous(log_sum_exp).into_array_arg(),
        into_contiguous(targets).into_array_arg(),
        into_contiguous(grad).into_array_arg(),
        dx.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        plan.team,
        dtypes,
    );
    dx
}
