use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    names::OwnedBuffer,
    plan::{
        KEPT, Plan, Rows, address_type, empty_on_device_of, given, in_f32, one_per_row, storage,
    },
    row::{AllRows, RowsOf},
    team::{Reduction, over_row},
};

#[derive(CubeType, CubeLaunch)]
struct Parameters<N: Size> {
    gamma: OwnedBuffer<Vector<f32, N>>,
    beta: ComptimeOption<OwnedBuffer<Vector<f32, N>>>,
    epsilon: f32,
}

#[derive(CubeType, CubeLaunch)]
struct Normalized<F: Float, L: Float, N: Size> {
    output: OwnedBuffer<Vector<F, N>>,
    copy: ComptimeOption<OwnedBuffer<Vector<L, N>>>,
    mean: OwnedBuffer<f32>,
    inverse_std: OwnedBuffer<f32>,
    /// Whether there is a copy, see [`given`].
    #[cube(comptime)]
    #[allow(dead_code, reason = "it tells kernels apart")]
    given: u32,
}

#[cube(launch, address_type = "dynamic")]
fn layer_norm_kernel<F: Float, L: Float, N: Size>(
    x: &RowsOf<F, N>,
    parameters: &Parameters<N>,
    results: &mut Normalized<F, L, N>,
    rows: AllRows,
    #[define(F, L)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(rows.team);
    let row = rows.of_team();
    let x = x.share(row);
    let n = f32::cast_from(rows.length * N::value());

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += x.at(step);
        }
    }
    let mean = over_row::<N>(sum, Reduction::Sum, team) / n;
    let center = Vector::new(mean);

    let mut squares = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let centered = x.at(step) - center;
            squares += centered * centered;
        }
    }
    let var = over_row::<N>(squares, Reduction::Sum, team) / n;
    let inverse_std = 1.0 / (var + parameters.epsilon).sqrt();

    if row.leads() {
        results.mean[row.index] = mean;
        results.inverse_std[row.index] = inverse_std;
    }
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let column = row.column(step);
            let normalized = (x.at(step) - center) * Vector::new(inverse_std);
            let scaled = normalized * parameters.gamma[column];
            #[comptime]
            let value = match &parameters.beta {
                ComptimeOption::Some(beta) => scaled + beta[column],
                ComptimeOption::None => scaled,
            };
            let position = row.index * rows.length + column;
            results.output[position] = Vector::cast_from(value);
            #[comptime]
            if let ComptimeOption::Some(copy) = &mut results.copy {
                copy[position] = Vector::cast_from(value);
            }
        }
    }
}

/// Computes the op: the output, the mean and the inverse standard deviation of each row, and perhaps a copy of the output.
pub(crate) fn layer_norm<R: CubeRuntime>(
    x: CubeTensor<R>,
    gamma: CubeTensor<R>,
    beta: Option<CubeTensor<R>>,
    epsilon: f64,
    copy: Option<DType>,
) -> Vec<CubeTensor<R>> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    let copy = copy.map(|dtype| empty_on_device_of(&x, x.shape(), dtype));
    let [mean, inverse_std] =
        [(), ()].map(|()| empty_on_device_of(&x, one_per_row(&x), DType::F32));
    let results = [output, mean, inverse_std].into_iter().chain(copy);
    let results: Vec<_> = results.collect();
    let output = &results[0];
    if x.meta.num_elements() == 0 {
        return results;
    }
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cubes, units) = plan.geometry(&output.client);
    let copy = results.get(3);
    let copy_dtype = copy.map_or(output.dtype, |copy| copy.dtype);
    let parameter = |it| into_contiguous(in_f32(it)).into_array_arg();
    let arg = |result: &CubeTensor<R>| result.clone().into_array_arg();
    layer_norm_kernel::launch(
        &output.client,
        cubes,
        units,
        address_type([&x.tensor, output]),
        plan.vector_size,
        x.arg(&plan),
        ParametersLaunch::new(parameter(gamma), beta.map(parameter).into(), epsilon as f32),
        NormalizedLaunch::new(
            arg(output),
            copy.map(arg).into(),
            arg(&results[1]),
            arg(&results[2]),
            given([copy.is_some()]),
        ),
        plan.all_rows(),
        [x.storage(), storage(copy_dtype)],
    );
    results
}
