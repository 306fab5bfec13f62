use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, one_per_row, storage},
    row::{Row, Share},
    team::{Reduction, Team, over_row, team_index},
};

#[cube(launch, address_type = "dynamic")]
fn layer_norm_kernel<F: Float, L: Float, N: Size>(
    x: &Array<Vector<F, N>>,
    gamma: &Array<Vector<f32, N>>,
    beta: &ComptimeOption<Array<Vector<f32, N>>>,
    output: &mut Array<Vector<F, N>>,
    copy: &mut ComptimeOption<Array<Vector<L, N>>>,
    mean: &mut Array<f32>,
    inverse_std: &mut Array<f32>,
    pitch: usize,
    rows: usize,
    length: usize,
    epsilon: f32,
    #[comptime] team: Team,
    #[define(F, L)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let x = Share::<F, N>::new(x, pitch, row, team);
    let n = f32::cast_from(length * N::value());

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += x.at(step);
        }
    }
    let row_mean = over_row::<N>(sum, Reduction::Sum, team) / n;
    let center = Vector::new(row_mean);

    let mut squares = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let centered = x.at(step) - center;
            squares += centered * centered;
        }
    }
    let var = over_row::<N>(squares, Reduction::Sum, team) / n;
    let row_inverse_std = 1.0 / (var + epsilon).sqrt();

    if row.leads() {
        mean[row.index] = row_mean;
        inverse_std[row.index] = row_inverse_std;
    }
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let column = row.column(step);
            let normalized = (x.at(step) - center) * Vector::new(row_inverse_std);
            let scaled = normalized * gamma[column];
            #[comptime]
            let value = match beta {
                ComptimeOption::Some(beta) => scaled + beta[column],
                ComptimeOption::None => scaled,
            };
            let position = row.index * length + column;
            output[position] = Vector::cast_from(value);
            #[comptime]
            if let ComptimeOption::Some(copy) = copy {
                copy[position] = Vector::cast_from(value);
            }
        }
    }
}

/// The output, its copy, and the mean and the inverse standard deviation of each row.
pub(crate) type Output<R> = (CubeTensor<R>, Option<CubeTensor<R>>, [CubeTensor<R>; 2]);

/// Computes the op. γ and β are F32.
pub(crate) fn layer_norm<R: CubeRuntime>(
    x: CubeTensor<R>,
    gamma: CubeTensor<R>,
    beta: Option<CubeTensor<R>>,
    epsilon: f64,
    copy: Option<DType>,
) -> Output<R> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    let copy = copy.map(|dtype| empty_on_device_of(&x, x.shape(), dtype));
    let [mean, inverse_std] =
        [(), ()].map(|()| empty_on_device_of(&x, one_per_row(&x), DType::F32));
    if x.shape().num_elements() == 0 {
        return (output, copy, [mean, inverse_std]);
    }
    let client = x.client.clone();
    let x = Rows::new(x);
    let gamma = into_contiguous(gamma);
    let beta = beta.map(into_contiguous);
    let plan = Plan::new([&x], KEPT);
    let copy_dtype = copy.as_ref().map_or(output.dtype, |copy| copy.dtype);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    layer_norm_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &output]),
        plan.vector_size,
        x.array_arg(),
        gamma.into_array_arg(),
        beta.map(CubeTensor::into_array_arg).into(),
        output.clone().into_array_arg(),
        copy.clone().map(CubeTensor::into_array_arg).into(),
        mean.clone().into_array_arg(),
        inverse_std.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        epsilon as f32,
        plan.team,
        [storage(output.dtype), storage(copy_dtype)],
    );
    (output, copy, [mean, inverse_std])
}
