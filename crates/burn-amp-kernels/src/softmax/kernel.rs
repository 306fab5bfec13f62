use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    Mask, ScaleMask,
    mask_rows::{MaskPlace, MaskPlaceLaunch, MaskRows, place},
};
use crate::cube::{
    plan::{KEPT, Plan, Rows, address_type, empty_on_device_of, storage},
    row::{Row, Share},
    team::{Reduction, Team, over_row, team_index},
};

/// Returns a vector times the factor, and with the value where the mask is; `at` is its place in the mask.
#[cube]
fn scaled_masked<M: Int, N: Size>(
    x: Vector<f32, N>,
    mask: &ComptimeOption<Array<Vector<M, N>>>,
    at: usize,
    scale: f32,
    value: f32,
    #[comptime] is_scaled: bool,
) -> Vector<f32, N> {
    let x = if comptime!(is_scaled) {
        x * Vector::new(scale)
    } else {
        x
    };
    #[comptime]
    match mask {
        ComptimeOption::Some(mask) => {
            select_many(Vector::cast_from(mask[at]), Vector::new(value), x)
        }
        ComptimeOption::None => x,
    }
}

#[cube(launch, address_type = "dynamic")]
fn softmax_kernel<F: Float, M: Int, N: Size>(
    x: &Array<Vector<F, N>>,
    mask: &ComptimeOption<Array<Vector<M, N>>>,
    output: &mut Array<Vector<F, N>>,
    pitch: usize,
    rows: usize,
    length: usize,
    place: &MaskPlace,
    scale: f32,
    value: f32,
    #[comptime] is_scaled: bool,
    #[comptime] team: Team,
    #[define(F, M)] _dtypes: [StorageType; 2],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let mut x = Share::<F, N>::new(x, pitch, row, team);
    let mask_row = place.of(row.index);

    let first = scaled_masked::<M, N>(x.first_vector(), mask, mask_row, scale, value, is_scaled);
    let mut largest = Vector::new(first[0]);
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let at = mask_row + row.column(step);
            let score = scaled_masked::<M, N>(x.at(step), mask, at, scale, value, is_scaled);
            largest = max(largest, score);
            x.keep(step, score);
        }
    }
    let largest = Vector::new(over_row::<N>(largest, Reduction::Max, team));

    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll(team.kept > 0)]
    for step in 0..row.steps() {
        if row.has(step) {
            let score = if comptime!(team.kept > 0) {
                x.at(step)
            } else {
                let at = mask_row + row.column(step);
                scaled_masked::<M, N>(x.at(step), mask, at, scale, value, is_scaled)
            };
            let exp = (score - largest).exp();
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
                let at = mask_row + row.column(step);
                let score = scaled_masked::<M, N>(x.at(step), mask, at, scale, value, is_scaled);
                (score - largest).exp()
            };
            output[row.index * length + row.column(step)] = Vector::cast_from(exp * factor);
        }
    }
}

/// Computes the op along the last dimension.
pub(crate) fn softmax<R: CubeRuntime>(
    x: CubeTensor<R>,
    before: ScaleMask<CubeTensor<R>>,
) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), x.dtype);
    if x.shape().num_elements() == 0 {
        return output;
    }
    let client = x.client.clone();
    let x = Rows::new(x);
    let plan = Plan::new([&x], KEPT);
    let before = Before::new(before, &output, plan.vector_size);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    softmax_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&x.tensor, &output]),
        plan.vector_size,
        x.array_arg(),
        before.mask_arg().into(),
        output.clone().into_array_arg(),
        x.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        before.place(plan.vector_size),
        before.scale,
        before.value,
        before.is_scaled(),
        plan.team,
        [storage(output.dtype), before.mask_storage()],
    );
    output
}

/// What an operand goes through first, as a kernel reads it.
struct Before<R: CubeRuntime> {
    scale: f32,
    value: f32,
    mask: Option<MaskRows<R>>,
}

impl<R: CubeRuntime> Before<R> {
    fn new(before: ScaleMask<CubeTensor<R>>, operand: &CubeTensor<R>, vector_size: usize) -> Self {
        let ScaleMask { scale, mask } = before;
        let (value, mask) = match mask {
            Some(Mask { elements, value }) => {
                let rows = MaskRows::new(elements, &operand.shape(), vector_size);
                (value, Some(rows))
            }
            None => (0.0, None),
        };
        Self { scale, value, mask }
    }

    fn is_scaled(&self) -> bool {
        self.scale != 1.0
    }

    fn mask_arg(&self) -> Option<ArrayArg<R>> {
        self.mask.as_ref().map(MaskRows::array_arg)
    }

    fn mask_storage(&self) -> StorageType {
        storage(self.mask.as_ref().map_or(DType::U32, MaskRows::dtype))
    }

    fn place(&self, vector_size: usize) -> MaskPlaceLaunch<R> {
        let runs = self.mask.as_ref().map(MaskRows::runs);
        place(runs.unwrap_or_default(), vector_size)
    }
}

#[cube(launch, address_type = "dynamic")]
fn softmax_backward_kernel<F: Float, G: Float, M: Int, N: Size>(
    output: &Array<Vector<F, N>>,
    grad: &Array<Vector<G, N>>,
    mask: &ComptimeOption<Array<Vector<M, N>>>,
    dx: &mut Array<Vector<F, N>>,
    output_pitch: usize,
    grad_pitch: usize,
    rows: usize,
    length: usize,
    place: &MaskPlace,
    scale: f32,
    #[comptime] is_scaled: bool,
    #[comptime] team: Team,
    #[define(F, G, M)] _dtypes: [StorageType; 3],
) {
    let row = Row::new(team_index(team), rows, length, team);
    let mask_row = place.of(row.index);
    let output = Share::<F, N>::new(output, output_pitch, row, team);
    let grad = Share::<G, N>::new(grad, grad_pitch, row, team);

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
            let at = mask_row + row.column(step);
            let value = scaled_masked::<M, N>(value, mask, at, scale, 0.0, is_scaled);
            dx[row.index * length + row.column(step)] = Vector::cast_from(value);
        }
    }
}

/// Computes the gradient of the op along the last dimension.
pub(crate) fn softmax_backward<R: CubeRuntime>(
    output: CubeTensor<R>,
    grad: CubeTensor<R>,
    before: ScaleMask<CubeTensor<R>>,
) -> CubeTensor<R> {
    let dx = empty_on_device_of(&output, output.shape(), output.dtype);
    if output.shape().num_elements() == 0 {
        return dx;
    }
    let client = output.client.clone();
    let (output, grad) = (Rows::new(output), Rows::new(grad));
    let plan = Plan::new([&output, &grad], KEPT);
    let before = Before::new(before, &dx, plan.vector_size);
    let (cube_count, cube_dim) = plan.team.launch(&client, plan.rows);
    let [f, g] = [&output, &grad].map(|rows| storage(rows.tensor.dtype));
    softmax_backward_kernel::launch(
        &client,
        cube_count,
        cube_dim,
        address_type([&output.tensor, &grad.tensor, &dx]),
        plan.vector_size,
        output.array_arg(),
        grad.array_arg(),
        before.mask_arg().into(),
        dx.clone().into_array_arg(),
        output.pitch / plan.vector_size,
        grad.pitch / plan.vector_size,
        plan.rows,
        plan.length,
        before.place(plan.vector_size),
        before.scale,
        before.is_scaled(),
        plan.team,
        [f, g, before.mask_storage()],
    );
    dx
}
