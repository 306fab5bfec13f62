use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::zeros_client, tensor::CubeTensor,
};
use cubecl::{prelude::*, server::CubeCountSelection};

use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, row_length, storage},
    row::{Row, Share},
    team::{Reduction, Team, over_row, team_index},
};

/// The units to keep busy on a multiprocessor: fewer would have too little to read at once, more would write more partial
/// sums.
const UNITS: usize = 1024;
/// The multiprocessors of a device that does not tell how many it has.
const MULTIPROCESSORS: u32 = 32;
/// The fewest rows of a team, so that its partial sums are small compared with what it reads.
const ROWS: usize = 4;

/// How many F32 numbers a unit keeps of one tensor: it has two tensors, and the sums for γ and β.
const KEPT_BACKWARD: usize = KEPT / 2;

/// Team `t` of `teams` works on the rows `t`, `t + teams`, … and keeps its sums for γ and β until the last of them is
/// done.
#[cube(launch, address_type = "dynamic")]
fn layer_norm_backward_kernel<F: Float, G: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    gamma: &Array<Vector<f32, N>>,
    mean: &Array<f32>,
    inverse_std: &Array<f32>,
    grad: &Array<Vector<G, N>>,
    dx: &mut Array<Vector<F, N>>,
    gamma_sums: &mut Array<Vector<f32, N>>,
    beta_sums: &mut Array<Vector<f32, N>>,
    x_pitch: usize,
    grad_pitch: usize,
    rows: usize,
    length: usize,
    teams: usize,
    rows_per_team: usize,
    #[comptime] team: Team,
    #[define(F, G)] _dtypes: [StorageType; 2],
) {
    let index = team_index(team);
    let n = f32::cast_from(length * N::value());
    let mut gamma_sum = Array::<Vector<f32, N>>::new(team.kept);
    let mut beta_sum = Array::<Vector<f32, N>>::new(team.kept);
    #[unroll]
    for step in 0..team.kept {
        gamma_sum[step] = Vector::zeroed();
        beta_sum[step] = Vector::zeroed();
    }

    for turn in 0..rows_per_team {
        let next = select(index < teams, index + turn * teams, rows);
        let row = Row::new(next, rows, length, team);
        let mut x = Share::<F, N>::new(x, x_pitch, row, team);
        let mut grad = Share::<G, N>::new(grad, grad_pitch, row, team);
        let center = Vector::new(mean[row.index]);
        let row_inverse_std = Vector::new(inverse_std[row.index]);

        let mut sum = Vector::<f32, N>::zeroed();
        let mut along = Vector::<f32, N>::zeroed();
        #[unroll]
        for step in 0..team.kept {
            if row.has(step) {
                let normalized = (x.at(step) - center) * row_inverse_std;
                gamma_sum[step] += grad.at(step) * normalized;
                beta_sum[step] += grad.at(step);
                let dnormalized = grad.at(step) * gamma[row.column(step)];
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
                let normalized = x.at(step);
                let dnormalized = grad.at(step);
                let value = (dnormalized - sum - normalized * along) * row_inverse_std;
                dx[row.index * length + row.column(step)] = Vector::cast_from(value);
            }
        }
    }

    let sums = Row::new(index, teams, length, team);
    #[unroll]
    for step in 0..team.kept {
        if sums.has(step) {
            let position = index * length + sums.column(step);
            gamma_sums[position] = gamma_sum[step];
            beta_sums[position] = beta_sum[step];
        }
    }
}

/// The columns of a cube that sums over teams: neighbouring units read neighbouring columns.
const COLUMNS: u32 = 32;
/// The units of such a cube per column.
const UNITS_PER_COLUMN: u32 = 8;

/// Adds the sums of all teams, `[teams, n]`, for γ and β at once.
#[cube(launch, address_type = "dynamic")]
fn sum_over_teams_kernel(
    gamma_sums: &Array<f32>,
    beta_sums: &Array<f32>,
    dgamma: &mut Array<f32>,
    dbeta: &mut Array<f32>,
    teams: usize,
    n: usize,
) {
    let column = CUBE_POS * COLUMNS as usize + UNIT_POS_X as usize;
    let mut gamma = 0.0f32;
    let mut beta = 0.0f32;
    if column < n {
        for team in range_stepped(UNIT_POS_Y as usize, teams, UNITS_PER_COLUMN as usize) {
            gamma += gamma_sums[team * n + column];
            beta += beta_sums[team * n + column];
        }
    }
    let units = comptime!((COLUMNS * UNITS_PER_COLUMN) as usize);
    let mut gammas = SharedMemory::<f32>::new(units);
    let mut betas = SharedMemory::<f32>::new(units);
    gammas[UNIT_POS as usize] = gamma;
    betas[UNIT_POS as usize] = beta;
    sync_cube();
    if UNIT_POS_Y == 0 && column < n {
        #[unroll]
        for unit in 1..UNITS_PER_COLUMN {
            gamma += gammas[(unit * COLUMNS + UNIT_POS_X) as usize];
            beta += betas[(unit * COLUMNS + UNIT_POS_X) as usize];
        }
        dgamma[column] = gamma;
        dbeta[column] = beta;
    }
}

/// Returns the gradients of `x`, γ and β, or `None` if rows are too long to be kept. γ is F32.
pub(crate) fn layer_norm_backward<R: CubeRuntime>(
    x: &CubeTensor<R>,
    gamma: &CubeTensor<R>,
    mean: &CubeTensor<R>,
    inverse_std: &CubeTensor<R>,
    grad: &CubeTensor<R>,
) -> Option<[CubeTensor<R>; 3]> {
    let client = x.client.clone();
    let n = row_length(x);
    if x.meta.num_elements() == 0 {
        let empty = empty_on_device_of(x, x.shape(), x.dtype);
        let zeros = || {
            zeros_client(
                client.clone(),
                x.device.clone(),
                Shape::new([n]),
                DType::F32,
            )
        };
        return Some([empty, zeros(), zeros()]);
    }
    let (x, grad) = (Rows::new(x.clone()), Rows::new(grad.clone()));
    let plan = Plan::new([&x, &grad], KEPT_BACKWARD);
    if plan.team.kept == 0 {
        return None;
    }
    let hardware = &client.properties().hardware;
    let multiprocessors = hardware
        .num_streaming_multiprocessors
        .unwrap_or(MULTIPROCESSORS);
    let at_most = (UNITS * multiprocessors as usize / plan.team.units).max(1);
    let rows_per_team = plan.rows.div_ceil(at_most).max(ROWS);
    let teams = plan.rows.div_ceil(rows_per_team);

    let dx = empty_on_device_of(&x.tensor, x.tensor.shape(), x.tensor.dtype);
    let empty = |shape| empty_on_device_of(&dx, shape, DType::F32);
    let [gamma_sums, beta_sums] = [(), ()].map(|()| empty(Shape::new([teams, n])));
    let (cube_count, cube_dim) = plan.team.launch(&client, teams);
    let dtypes = [storage(x.tensor.dtype), storage(grad.tensor.dtype)];
    layer_norm_backward_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &grad.tensor, &dx, &gamma_sums]),
        plan.vector_size,
        x.array_arg(),
        into_contiguous(gamma.clone()).into_array_arg(),
        into_contiguous(mean.clone()).into_array_arg(),
        into_contiguous(inverse_std.clone()).into_array_arg(),
        grad.array_arg(),
        dx.clone().into_array_arg(),
        gamma_sums.clone().into_array_arg(),
        beta_sums.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        grad.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        teams,
        rows_per_team,
        plan.team,
        dtypes,
    );

    let [dgamma, dbeta] = [(), ()].map(|()| empty(Shape::new([n])));
    let cubes = n.div_ceil(COLUMNS as usize) as u32;
    sum_over_teams_kernel::launch(
        &client,
        CubeCountSelection::new(&client, cubes).cube_count(),
        CubeDim::new_2d(COLUMNS, UNITS_PER_COLUMN),
        address_type([&gamma_sums]),
        gamma_sums.into_array_arg(),
        beta_sums.into_array_arg(),
        dgamma.clone().into_array_arg(),
        dbeta.clone().into_array_arg(),
        teams,
        n,
    );
    Some([dx, dgamma, dbeta])
}
