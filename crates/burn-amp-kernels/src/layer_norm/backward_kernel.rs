use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::zeros_client, tensor::CubeTensor,
};
use cubecl::prelude::*;

use crate::cube::{
    lists::multiprocessors,
    names::OwnedBuffer,
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, in_f32, row_length},
    row::{AllRows, Row, RowsOf},
    slices::sum_of_slices,
    team::{Reduction, over_row, team_index},
};

/// The units to keep busy on a multiprocessor: fewer would have too little to read at once, more would write more partial
/// sums.
const UNITS: usize = 1024;
/// The fewest rows of a team, so that its partial sums are small compared with what it reads.
const ROWS: usize = 4;

/// How many F32 numbers a unit keeps of one tensor: it has two tensors, and the sums for γ and β.
const KEPT_BACKWARD: usize = KEPT / 2;

/// What the forward pass read and computed.
#[derive(CubeType, CubeLaunch)]
struct Statistics<N: Size> {
    gamma: OwnedBuffer<Vector<f32, N>>,
    mean: OwnedBuffer<f32>,
    inverse_std: OwnedBuffer<f32>,
}

/// The gradient of `x`, and the sums of each team for those of γ and β.
#[derive(CubeType, CubeLaunch)]
struct Gradients<F: Float, N: Size> {
    dx: OwnedBuffer<Vector<F, N>>,
    gamma: OwnedBuffer<Vector<f32, N>>,
    beta: OwnedBuffer<Vector<f32, N>>,
}

/// How many teams there are, and the rows of which each has some.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Teams {
    count: usize,
    rows: AllRows,
    rows_per_team: usize,
}

/// The sums for γ and β of a unit.
#[derive(CubeType)]
struct ParameterSums<N: Size> {
    gamma: Array<Vector<f32, N>>,
    beta: Array<Vector<f32, N>>,
}

/// Team `t` of `teams` works on the rows `t`, `t + teams`, … and keeps its sums for γ and β until the last of them is
/// done.
#[cube(launch, address_type = "dynamic")]
fn layer_norm_backward_kernel<F: Float, G: Float, N: Size>(
    x: &RowsOf<F, N>,
    grad: &RowsOf<G, N>,
    statistics: &Statistics<N>,
    results: &mut Gradients<F, N>,
    teams: Teams,
    #[define(F, G)] _dtypes: [StorageType; 2],
) {
    let rows = teams.rows;
    let team = comptime!(rows.team);
    let index = team_index(team);
    let mut sums = ParameterSums::<N> {
        gamma: Array::<Vector<f32, N>>::new(team.kept),
        beta: Array::<Vector<f32, N>>::new(team.kept),
    };
    #[unroll]
    for step in 0..team.kept {
        sums.gamma[step] = Vector::zeroed();
        sums.beta[step] = Vector::zeroed();
    }
    for turn in 0..teams.rows_per_team {
        let next = index + turn * teams.count;
        let row = rows.at(select(index < teams.count, next, rows.count));
        add_row::<F, G, N>(x, grad, statistics, row, results, &mut sums);
    }
    let teams = AllRows {
        count: teams.count,
        length: rows.length,
        team,
    };
    let row = teams.at(index);
    #[unroll]
    for step in 0..team.kept {
        if row.has(step) {
            let position = index * rows.length + row.column(step);
            results.gamma[position] = sums.gamma[step];
            results.beta[position] = sums.beta[step];
        }
    }
}

/// Writes the gradient of a row of `x`, and adds to the sums for γ and β.
#[cube]
fn add_row<F: Float, G: Float, N: Size>(
    x: &RowsOf<F, N>,
    grad: &RowsOf<G, N>,
    statistics: &Statistics<N>,
    row: Row,
    results: &mut Gradients<F, N>,
    sums: &mut ParameterSums<N>,
) {
    let team = comptime!(row.team);
    let n = f32::cast_from(row.length * N::value());
    let mut x = x.share(row);
    let mut grad = grad.share(row);
    let center = Vector::new(statistics.mean[row.index]);
    let inverse_std = Vector::new(statistics.inverse_std[row.index]);

    let mut sum = Vector::<f32, N>::zeroed();
    let mut along = Vector::<f32, N>::zeroed();
    #[unroll]
    for step in 0..team.kept {
        if row.has(step) {
            let normalized = (x.at(step) - center) * inverse_std;
            sums.gamma[step] += grad.at(step) * normalized;
            sums.beta[step] += grad.at(step);
            let dnormalized = grad.at(step) * statistics.gamma[row.column(step)];
            sum += dnormalized;
            along += dnormalized * normalized;
            x.keep(step, normalized);
            grad.keep(step, dnormalized);
        }
    }
    let sum = Vector::new(over_row::<N>(sum, Reduction::Sum, team) / n);
    let along = Vector::new(over_row::<N>(along, Reduction::Sum, team) / n);

    #[unroll]
    for step in 0..team.kept {
        if row.has(step) {
            let value = (grad.at(step) - sum - x.at(step) * along) * inverse_std;
            results.dx[row.index * row.length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Returns the gradients of `x`, γ and β, or `None` if rows are too long to be kept.
pub(crate) fn layer_norm_backward<R: CubeRuntime>(
    [x, gamma, mean, inverse_std, grad]: &[CubeTensor<R>; 5],
) -> Option<[CubeTensor<R>; 3]> {
    let (client, n) = (&x.client, row_length(x));
    if x.meta.num_elements() == 0 {
        let zeros = [(), ()].map(|()| {
            let (client, device) = (client.clone(), x.device.clone());
            zeros_client(client, device, Shape::new([n]), DType::F32)
        });
        let [dgamma, dbeta] = zeros;
        return Some([x.clone(), dgamma, dbeta]);
    }
    let (x, grad) = (Rows::new(x.clone()), Rows::new(grad.clone()));
    let plan = Plan::new([&x, &grad], KEPT_BACKWARD);
    if plan.team.kept == 0 {
        return None;
    }
    let dx = empty_on_device_of(&x.tensor, x.tensor.shape(), x.tensor.dtype);
    let at_most = (UNITS * multiprocessors(client) as usize / plan.team.units).max(1);
    let rows_per_team = plan.rows.div_ceil(at_most).max(ROWS);
    let teams = plan.rows.div_ceil(rows_per_team);
    let sums = [(), ()].map(|()| empty_on_device_of(&dx, Shape::new([teams, n]), DType::F32));
    let (cubes, units) = plan.team.launch(client, teams);
    let [gamma, mean, inverse_std] = [in_f32(gamma.clone()), mean.clone(), inverse_std.clone()]
        .map(|read| into_contiguous(read).into_array_arg());
    let [dx_arg, gamma_sums, beta_sums] =
        [&dx, &sums[0], &sums[1]].map(|written| written.clone().into_array_arg());
    layer_norm_backward_kernel::launch(
        client,
        cubes,
        units,
        address_type([&x.tensor, &grad.tensor, &dx, &sums[0]]),
        plan.vector_size,
        x.arg(&plan),
        grad.arg(&plan),
        StatisticsLaunch::new(gamma, mean, inverse_std),
        GradientsLaunch::new(dx_arg, gamma_sums, beta_sums),
        TeamsLaunch::new(teams, plan.all_rows(), rows_per_team),
        [x.storage(), grad.storage()],
    );
    let [dgamma, dbeta] = sum_of_slices(sums, 1.0, None);
    Some([dx, dgamma, dbeta])
}
