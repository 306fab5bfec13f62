//! The sums of slices, of which a kernel before has written the sum of each.

use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{prelude::*, server::CubeCountSelection};

use super::{
    names::{Buffer, shared},
    plan::{address_type, empty_on_device_of, row_length},
};

/// The columns of a cube: 32 bytes of a slice, the least that a device reads at once.
const COLUMNS: usize = 8;
/// The most units of a cube for one of them.
const UNITS: usize = 128;
/// The slices of a unit, as long as there can be more units.
const SLICES: usize = 8;

/// Sums of the squares of what terms are off their mean, which are added otherwise than others: those of a slice are off the mean
/// of the slice.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct OffMean {
    /// Whether the sums are such.
    #[cube(comptime)]
    is_one: bool,
    /// The terms of a slice, of which the last one may have fewer.
    per_slice: usize,
    /// The terms of all slices.
    length: usize,
}

/// Adds the slices of both, `[slices, n]`, and divides the sums. Unit `(c, u)` of a cube adds the slices `u`, `u + units`, … of
/// the cube's column `c`; then the units add up their sums.
#[cube(launch, address_type = "dynamic")]
fn sum_of_slices_kernel(
    firsts: &Buffer<f32>,
    seconds: &Buffer<f32>,
    first_sum: &mut Buffer<f32>,
    second_sum: &mut Buffer<f32>,
    slices: usize,
    divisor: f32,
    spread: OffMean,
    #[comptime] units: usize,
) {
    let n = first_sum.len();
    let column = CUBE_POS * COLUMNS + UNIT_POS_X as usize;
    let mut first = 0.0f32;
    let mut second = 0.0f32;
    if column < n {
        for slice in range_stepped(UNIT_POS_Y as usize, slices, units) {
            first += firsts[slice * n + column];
            second += seconds[slice * n + column];
        }
    }
    let first = over_units(first, units);
    if comptime!(spread.is_one) {
        let mean = first / f32::cast_from(spread.length);
        if column < n {
            for slice in range_stepped(UNIT_POS_Y as usize, slices, units) {
                let rest = spread.length - slice * spread.per_slice;
                let terms = f32::cast_from(rest.min(spread.per_slice));
                let off = firsts[slice * n + column] / terms - mean;
                second += terms * off * off;
            }
        }
    }
    let second = over_units(second, units);
    if UNIT_POS_Y == 0 && column < n {
        first_sum[column] = first / divisor;
        second_sum[column] = second / divisor;
    }
}

/// The sum over the units of a column, for all of them.
#[cube]
fn over_units(value: f32, #[comptime] units: usize) -> f32 {
    let mut parts = shared::<f32>(comptime!(COLUMNS * units));
    let place = UNIT_POS as usize;
    parts[place] = value;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let distance = comptime!(units >> (level + 1));
        if (UNIT_POS_Y as usize) < distance {
            let other = parts[place + distance * COLUMNS];
            parts[place] += other;
        }
        sync_cube();
    }
    let sum = parts[UNIT_POS_X as usize];
    // The next sum may be in the same memory.
    sync_cube();
    sum
}

/// Adds the slices of both, `[slices, n]`, and divides the sums. The terms of a `spread` are `[per_slice, length]`.
pub(crate) fn sum_of_slices<R: CubeRuntime>(
    slices: [CubeTensor<R>; 2],
    divisor: f32,
    spread: Option<[usize; 2]>,
) -> [CubeTensor<R>; 2] {
    let n = row_length(&slices[0]);
    let client = slices[0].client.clone();
    let sums = [(), ()].map(|()| empty_on_device_of(&slices[0], Shape::new([n]), DType::F32));
    let cubes = n.div_ceil(COLUMNS) as u32;
    let count = slices[0].meta.num_elements() / n;
    let limit = client.properties().hardware.max_units_per_cube as usize;
    let mut units = count.div_ceil(SLICES).next_power_of_two().min(UNITS);
    while COLUMNS * units > limit {
        units /= 2;
    }
    let addresses = address_type(&slices);
    let [firsts, seconds] = slices.map(CubeTensor::into_array_arg);
    let [first_sum, second_sum] = sums.clone().map(CubeTensor::into_array_arg);
    let [per_slice, length] = spread.unwrap_or([1, 1]);
    let spread = OffMeanLaunch::new(spread.is_some(), per_slice, length);
    sum_of_slices_kernel::launch(
        &client,
        CubeCountSelection::new(&client, cubes).cube_count(),
        CubeDim::new_2d(COLUMNS as u32, units as u32),
        addresses,
        firsts,
        seconds,
        first_sum,
        second_sum,
        count,
        divisor,
        spread,
        units,
    );
    sums
}
