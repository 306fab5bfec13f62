use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    names::{Buffer, OwnedBuffer, element, with_element},
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, storage},
    row::{AllRows, RowsOf},
};

/// What there is one of per row.
#[derive(CubeType, CubeLaunch)]
struct OnePerRow<I: Int> {
    log_sum_exp: OwnedBuffer<f32>,
    targets: OwnedBuffer<I>,
    grad: OwnedBuffer<f32>,
}

#[cube(launch, address_type = "dynamic")]
fn log_softmax_at_backward_kernel<F: Float, I: Int, N: Size>(
    x: &RowsOf<F, N>,
    of_rows: &OnePerRow<I>,
    dx: &mut Buffer<Vector<F, N>>,
    rows: AllRows,
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(rows.team);
    let row = rows.of_team();
    let x = x.share(row);
    let log_sum_exp = Vector::new(of_rows.log_sum_exp[row.index]);
    let target = u32::cast_from(of_rows.targets[row.index]) as usize;
    let grad = of_rows.grad[row.index];
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let probability = (x.at(step) - log_sum_exp).exp();
            let first = row.column(step) * N::value();
            let mut value = Vector::<f32, N>::zeroed();
            #[unroll]
            for at in 0..N::value() {
                let one_hot = select(first + at == target, 1.0f32, 0.0f32);
                let of_class = (one_hot - element::<f32, N>(probability, at)) * grad;
                value = with_element::<f32, N>(value, at, of_class);
            }
            dx[row.index * rows.length + row.column(step)] = Vector::cast_from(value);
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
    if dx.meta.num_elements() == 0 {
        return dx;
    }
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let (cubes, units) = plan.geometry(&dx.client);
    let dtypes = [x.storage(), storage(targets.dtype)];
    let [log_sum_exp, targets, grad] =
        [log_sum_exp, targets, grad].map(|of_rows| into_contiguous(of_rows).into_array_arg());
    log_softmax_at_backward_kernel::launch(
        &dx.client,
        cubes,
        units,
        address_type([&x.tensor, &dx]),
        plan.vector_size,
        x.arg(&plan),
        OnePerRowLaunch::new(log_sum_exp, targets, grad),
        dx.clone().into_array_arg(),
        plan.all_rows(),
        dtypes,
    );
    dx
}
