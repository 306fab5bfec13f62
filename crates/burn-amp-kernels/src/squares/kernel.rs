use burn_backend::{Backend, DType, Shape};
use burn_cubecl::{
    CubeRuntime,
    kernel::into_contiguous,
    ops::numeric::{empty_device_contiguous_dtype, zeros_client},
    tensor::CubeTensor,
};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::Squares;
use crate::{
    cube::{
        lists::chunks,
        team::{Reduction, Team, over_row, team_index},
    },
    loss_scale::{OVERFLOWED, SCALE},
};

/// Every unit strides over all tensors and writes the sum of what it has read to its place in `sums`, from `first` on.
#[cube(launch)]
fn squares_kernel<F: Numeric, N: Size>(
    tensors: &Sequence<LinearView<Vector<F, N>>>,
    factors: &Sequence<f32>,
    before: &Sequence<Array<f32>>,
    after: &Sequence<Array<f32>>,
    sums: &mut Array<f32>,
    first: usize,
    #[comptime] is_scaled: bool,
    #[define(F)] _dtype: StorageType,
) {
    let mut unscale = f32::new(1.0);
    let mut overflowed = f32::new(0.0);
    if comptime!(is_scaled) {
        unscale = 1.0 / before.index(0usize)[SCALE];
        overflowed = after.index(0usize)[OVERFLOWED];
    }
    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll]
    for at in 0..tensors.len() {
        let tensor = tensors.index(at);
        let factor = Vector::new(*factors.index(at));
        let mut position = ABSOLUTE_POS;
        while position < tensor.shape() {
            let mut values = Vector::<f32, N>::cast_from(tensor[position]) * factor;
            if comptime!(is_scaled) {
                values *= Vector::new(unscale);
            }
            sum += values * values;
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
    let mut total = sum[0];
    #[unroll]
    for at in 1..N::value() {
        total += sum[at];
    }
    if overflowed > 0.0 {
        total = f32::new(0.0);
    }
    sums[first + ABSOLUTE_POS] = total;
}

/// One team adds up all sums.
#[cube(launch)]
fn total_kernel(sums: &Array<f32>, total: &mut Array<f32>, #[comptime] team: Team) {
    // The launch has one cube; its other teams have nothing to add.
    let is_first = team_index(team) == 0;
    let mut sum = Vector::<f32, Const<1>>::zeroed();
    let mut at = UNIT_POS as usize % team.units;
    while is_first && at < sums.len() {
        sum += Vector::new(sums[at]);
        at += team.units;
    }
    let sum = over_row::<Const<1>>(sum, Reduction::Sum, team);
    if is_first && UNIT_POS == 0 {
        total[0] = sum;
    }
}

/// Launches the sum. No tensor may be F64.
pub(crate) fn sum_of_squares<R, B>(squares: Squares<B>) -> CubeTensor<R>
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let Squares { tensors, scaled_by } = squares;
    let (tensors, factors): (Vec<_>, Vec<_>) = tensors.into_iter().unzip();
    let first: &CubeTensor<R> = tensors.first().expect("there is a tensor to square");
    let (client, device) = (first.client.clone(), first.device.clone());
    let one = Shape::new([1]);
    let chunks: Vec<_> = chunks(tensors, 1)
        .into_iter()
        .map(|chunk| {
            let (cubes, units) = chunk.geometry(&client);
            (chunk, cubes, units)
        })
        .collect();
    if chunks.is_empty() {
        return zeros_client(client, device, one, DType::F32);
    }
    let units = |cubes: &CubeCount, dim: &CubeDim| {
        let CubeCount::Static(x, y, z) = cubes else {
            unreachable!("the geometry of a list is known on the host")
        };
        (x * y * z * dim.num_elems()) as usize
    };
    let all = chunks.iter().map(|(_, cubes, dim)| units(cubes, dim)).sum();
    let sums = zeros_client(
        client.clone(),
        device.clone(),
        Shape::new([all]),
        DType::F32,
    );
    let mut next = 0;
    for (chunk, cubes, dim) in chunks {
        let place = next;
        next += units(&cubes, &dim);
        let mut views = SequenceArg::new();
        let mut own = SequenceArg::new();
        for tensor in chunk.tensors {
            own.push(factors[tensor.index]);
            views.push(tensor.values.into_linear_view());
        }
        let state = |at: usize| {
            let mut sequence = SequenceArg::new();
            if let Some(states) = &scaled_by {
                sequence.push(into_contiguous(states[at].clone()).into_array_arg());
            }
            sequence
        };
        squares_kernel::launch::<R>(
            &client,
            cubes,
            dim,
            chunk.vector_size,
            views,
            own,
            state(0),
            state(1),
            sums.clone().into_array_arg(),
            place,
            scaled_by.is_some(),
            chunk.dtype.into(),
        );
    }
    let total = empty_device_contiguous_dtype(client.clone(), device, one, DType::F32);
    let team = Team::new(&client, all, 1);
    let (cubes, dim) = team.launch(&client, 1);
    total_kernel::launch::<R>(
        &client,
        cubes,
        dim,
        sums.into_array_arg(),
        total.clone().into_array_arg(),
        team,
    );
    total
}
