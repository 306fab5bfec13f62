use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    ScaleMask,
    before::{Before, before_arg},
};
use crate::cube::{
    names::{Buffer, OwnedBuffer, element},
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, storage},
    row::{AllRows, Row, RowsOf, Share},
    team::{Reduction, over_row},
};

/// Writes the softmax, or with `log_sum_exp` the log-softmax.
#[cube(launch, address_type = "dynamic")]
fn softmax_kernel<F: Float, O: Float, M: Int, N: Size>(
    x: &RowsOf<F, N>,
    before: &Before<M, N>,
    output: &mut Buffer<Vector<O, N>>,
    log_sum_exp: &mut ComptimeOption<OwnedBuffer<f32>>,
    rows: AllRows,
    #[define(F, O, M)] _dtypes: [StorageType; 3],
) {
    let team = comptime!(rows.team);
    let is_log = comptime!(log_sum_exp.is_some());
    let row = rows.of_team();
    let mut x = x.share(row);
    let mask = before.mask_row(row.index);

    let largest = largest::<F, M, N>(&mut x, before, mask, row);
    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let score = score_again::<F, M, N>(&x, before, mask, row, step);
            let exp = (score - Vector::new(largest)).exp();
            sum += exp;
            if comptime!(!is_log) {
                x.keep(step, exp);
            }
        }
    }
    let sum = over_row::<N>(sum, Reduction::Sum, team);
    let last = Vector::new(if comptime!(is_log) {
        sum.ln()
    } else {
        1.0 / sum
    });

    #[comptime]
    if let ComptimeOption::Some(log_sum_exp) = log_sum_exp {
        let of_row = largest + element::<f32, N>(last, 0usize);
        if row.leads() {
            log_sum_exp[row.index] = of_row;
        }
    }
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let score = score_again::<F, M, N>(&x, before, mask, row, step);
            let value = if comptime!(is_log) {
                score - Vector::new(largest) - last
            } else if comptime!(team.kept > 0) {
                score * last
            } else {
                (score - Vector::new(largest)).exp() * last
            };
            output[row.index * rows.length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Returns the largest score of a row, and keeps the scores.
#[cube]
fn largest<F: Float, M: Int, N: Size>(
    x: &mut Share<F, N>,
    before: &Before<M, N>,
    mask: usize,
    row: Row,
) -> f32 {
    let team = comptime!(row.team);
    let first = before.score(x.first(), mask);
    let mut largest = Vector::new(element::<f32, N>(first, 0usize));
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let score = before.score(x.at(step), mask + row.column(step));
            largest = max(largest, score);
            x.keep(step, score);
        }
    }
    over_row::<N>(largest, Reduction::Max, team)
}

/// Returns what is kept for a step. If nothing is kept, computes the score again.
#[cube]
fn score_again<F: Float, M: Int, N: Size>(
    x: &Share<F, N>,
    before: &Before<M, N>,
    mask: usize,
    row: Row,
    step: usize,
) -> Vector<f32, N> {
    if comptime!(x.kept > 0) {
        x.at(step)
    } else {
        before.score(x.at(step), mask + row.column(step))
    }
}

/// Computes the softmax along the last dimension in `dtype`. With a tensor of one F32 number per row computes the
/// log-softmax, and writes the log-sum-exps to that tensor.
pub(crate) fn softmax<R: CubeRuntime>(
    x: CubeTensor<R>,
    before: ScaleMask<CubeTensor<R>>,
    dtype: DType,
    log_sum_exp: Option<&CubeTensor<R>>,
) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), dtype);
    if x.meta.num_elements() == 0 {
        return output;
    }
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cubes, units) = plan.geometry(&output.client);
    let (before, mask) = before_arg(before, &output.shape(), plan.vector_size, false);
    softmax_kernel::launch(
        &output.client,
        cubes,
        units,
        address_type([&x.tensor, &output]),
        plan.vector_size,
        x.arg(&plan),
        before,
        output.clone().into_array_arg(),
        log_sum_exp.map(|it| it.clone().into_array_arg()).into(),
        plan.all_rows(),
        [x.storage(), storage(dtype), mask],
    );
    output
}

#[cube(launch, address_type = "dynamic")]
fn softmax_backward_kernel<F: Float, G: Float, M: Int, N: Size>(
    output: &RowsOf<F, N>,
    grad: &RowsOf<G, N>,
    before: &Before<M, N>,
    dx: &mut Buffer<Vector<F, N>>,
    rows: AllRows,
    #[define(F, G, M)] _dtypes: [StorageType; 3],
) {
    let team = comptime!(rows.team);
    let row = rows.of_team();
    let mask = before.mask_row(row.index);
    let output = output.share(row);
    let grad = grad.share(row);

    let mut sum = Vector::<f32, N>::zeroed();
    let mut weight = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            sum += grad.at(step) * output.at(step);
            weight += output.at(step);
        }
    }
    let sum = over_row::<N>(sum, Reduction::Sum, team);
    let weight = over_row::<N>(weight, Reduction::Sum, team);
    let mean = Vector::new(sum / select(weight == 0.0, 1.0, weight));

    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let value = output.at(step) * (grad.at(step) - mean);
            let value = before.gradient(value, mask + row.column(step));
            dx[row.index * rows.length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Computes the gradient of the softmax along the last dimension.
pub(crate) fn softmax_backward<R: CubeRuntime>(
    output: CubeTensor<R>,
    grad: CubeTensor<R>,
    before: ScaleMask<CubeTensor<R>>,
) -> CubeTensor<R> {
    let dx = empty_on_device_of(&output, output.shape(), output.dtype);
    if dx.meta.num_elements() == 0 {
        return dx;
    }
    let (output, grad) = (Rows::new(output), Rows::new(grad));
    let plan = Plan::new([&output, &grad], KEPT);
    let (cubes, units) = plan.geometry(&dx.client);
    let (before, mask) = before_arg(before, &dx.shape(), plan.vector_size, true);
    softmax_backward_kernel::launch(
        &dx.client,
        cubes,
        units,
        address_type([&output.tensor, &grad.tensor, &dx]),
        plan.vector_size,
        output.arg(&plan),
        grad.arg(&plan),
        before,
        dx.clone().into_array_arg(),
        plan.all_rows(),
        [output.storage(), grad.storage(), mask],
    );
    dx
}
