use burn_backend::{DType, Shape};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::zeros_client, tensor::CubeTensor,
};
use cubecl::prelude::*;

use crate::{
    cube::{
        lists::{Chunk, chunks},
        names::{Buffer, OwnedBuffer, TensorView, element},
        plan::{empty_on_device_of, storage},
        team::{Reduction, Team, over_row, team_index},
    },
    loss_scale::{OVERFLOWED, SCALE},
};

/// The states of the loss scale before and after the backward pass of all tensors.
#[derive(CubeType, CubeLaunch)]
struct StepStates {
    before: OwnedBuffer<f32>,
    after: OwnedBuffer<f32>,
}

/// Every unit strides over all tensors and writes the sum of what it has read to its place in `sums`, from `first` on.
#[cube(launch)]
fn squares_kernel<F: Numeric, N: Size>(
    tensors: &Sequence<TensorView<Vector<F, N>>>,
    factors: &Sequence<f32>,
    states: &ComptimeOption<StepStates>,
    sums: &mut Buffer<f32>,
    first: usize,
    #[define(F)] _dtype: StorageType,
) {
    let is_scaled = comptime!(states.is_some());
    let mut unscale = f32::new(1.0);
    let mut overflowed = f32::new(0.0);
    #[comptime]
    if let ComptimeOption::Some(states) = states {
        unscale = 1.0 / states.before[SCALE];
        overflowed = states.after[OVERFLOWED];
    }
    let mut sum = Vector::<f32, N>::zeroed();
    #[unroll]
    for at in 0..tensors.len() {
        let tensor = tensors.index(at);
        let factor = Vector::new(*factors.index(at));
        let mut position = ABSOLUTE_POS;
        while position < tensor.shape() {
            let mut values = Vector::<f32, N>::cast_from(tensor.read(position)) * factor;
            if comptime!(is_scaled) {
                values *= Vector::new(unscale);
            }
            sum += values * values;
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
    let mut total = element::<f32, N>(sum, 0usize);
    #[unroll]
    for at in 1..N::value() {
        total += element::<f32, N>(sum, at);
    }
    if overflowed > 0.0 {
        total = f32::new(0.0);
    }
    sums[first + ABSOLUTE_POS] = total;
}

/// One team adds up all sums.
#[cube(launch)]
fn total_kernel(sums: &Buffer<f32>, total: &mut Buffer<f32>, #[comptime] team: Team) {
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

/// Launches the sum of the tensors times their factors. No tensor may be F64. There may be two states of the loss scale.
pub(crate) fn sum_of_squares<R: CubeRuntime>(
    tensors: Vec<CubeTensor<R>>,
    factors: &[f32],
    states: &[CubeTensor<R>],
) -> CubeTensor<R> {
    let first = tensors.first().expect("there is a tensor to square");
    let (client, device) = (first.client.clone(), first.device.clone());
    let zeros = |length| {
        let shape = Shape::new([length]);
        zeros_client(client.clone(), device.clone(), shape, DType::F32)
    };
    let geometry = |chunk| {
        let (cubes, units) = Chunk::geometry(&chunk, &client);
        (chunk, cubes, units)
    };
    let chunks: Vec<_> = chunks(tensors, 1).into_iter().map(geometry).collect();
    if chunks.is_empty() {
        return zeros(1);
    }
    let units = |cubes: &CubeCount, units: &CubeDim| {
        let CubeCount::Static(cubes, ..) = cubes else {
            unreachable!("the geometry of a list is known on the host")
        };
        (cubes * units.num_elems()) as usize
    };
    let all = chunks.iter().map(|(_, cubes, dim)| units(cubes, dim)).sum();
    let sums = zeros(all);
    let mut next = 0;
    for (chunk, cubes, dim) in chunks {
        let place = next;
        next += units(&cubes, &dim);
        let own = chunk.tensors.iter().map(|tensor| factors[tensor.index]);
        let own = own.collect();
        let tensors = chunk.tensors.into_iter();
        let state = |at: usize| into_contiguous(states[at].clone()).into_array_arg();
        let states = (!states.is_empty()).then(|| StepStatesLaunch::new(state(0), state(1)));
        squares_kernel::launch::<R>(
            &client,
            cubes,
            dim,
            chunk.vector_size,
            tensors.map(|it| it.values.into_linear_view()).collect(),
            own,
            states.into(),
            sums.clone().into_array_arg(),
            place,
            storage(chunk.dtype),
        );
    }
    total(sums)
}

/// Launches the sum of all sums.
fn total<R: CubeRuntime>(sums: CubeTensor<R>) -> CubeTensor<R> {
    let total = empty_on_device_of(&sums, Shape::new([1]), DType::F32);
    let team = Team::new(&total.client, sums.meta.num_elements(), 1);
    let (cubes, units) = team.launch(&total.client, 1);
    total_kernel::launch::<R>(
        &total.client,
        cubes,
        units,
        sums.into_array_arg(),
        total.clone().into_array_arg(),
        team,
    );
    total
}
