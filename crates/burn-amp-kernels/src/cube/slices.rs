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
    let mut first_parts = shared::<f32>(comptime!(COLUMNS * units));
    let mut second_parts = shared::<f32>(comptime!(COLUMNS * units));
    let place = UNIT_POS as usize;
    first_parts[place] = first;
    second_parts[place] = second;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let distance = comptime!(units >> (level + 1));
        if (UNIT_POS_Y as usize) < distance {
            let other = place + distance * COLUMNS;
            let (first, second) = (first_parts[other], second_parts[other]);
            first_parts[place] += first;
            second_parts[place] += second;
        }
        sync_cube();
    }
    if UNIT_POS_Y == 0 && column < n {
        first_sum[column] = first_parts[place] / divisor;
        second_sum[column] = second_parts[place] / divisor;
    }
}

/// Adds the slices of both, `[slices, n]`, and divides the sums.
pub(crate) fn sum_of_slices<R: CubeRuntime>(
    slices: [CubeTensor<R>; 2],
    divisor: f32,
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
        units,
    );
    sums
}
