//! The sums of slices, of which a kernel before has written the sum of each.

use burn_backend::{DType, Shape};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{prelude::*, server::CubeCountSelection};

use super::{
    names::{Buffer, shared},
    plan::{address_type, empty_on_device_of, row_length},
};

/// The columns of a cube: neighbouring units read neighbouring columns.
const COLUMNS: u32 = 32;
/// The units of a cube per column.
const UNITS_PER_COLUMN: u32 = 8;

/// Adds the slices of both, `[slices, n]`, and divides the sums.
#[cube(launch, address_type = "dynamic")]
fn sum_of_slices_kernel(
    firsts: &Buffer<f32>,
    seconds: &Buffer<f32>,
    first_sum: &mut Buffer<f32>,
    second_sum: &mut Buffer<f32>,
    slices: usize,
    divisor: f32,
) {
    let n = first_sum.len();
    let column = CUBE_POS * COLUMNS as usize + UNIT_POS_X as usize;
    let mut first = 0.0f32;
    let mut second = 0.0f32;
    if column < n {
        for slice in range_stepped(UNIT_POS_Y as usize, slices, UNITS_PER_COLUMN as usize) {
            first += firsts[slice * n + column];
            second += seconds[slice * n + column];
        }
    }
    let units = comptime!((COLUMNS * UNITS_PER_COLUMN) as usize);
    let mut shared_first = shared::<f32>(units);
    let mut shared_second = shared::<f32>(units);
    shared_first[UNIT_POS as usize] = first;
    shared_second[UNIT_POS as usize] = second;
    sync_cube();
    if UNIT_POS_Y == 0 && column < n {
        #[unroll]
        for unit in 1..UNITS_PER_COLUMN {
            first += shared_first[(unit * COLUMNS + UNIT_POS_X) as usize];
            second += shared_second[(unit * COLUMNS + UNIT_POS_X) as usize];
        }
        first_sum[column] = first / divisor;
        second_sum[column] = second / divisor;
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
    let cubes = n.div_ceil(COLUMNS as usize) as u32;
    let count = slices[0].meta.num_elements() / n;
    let addresses = address_type(&slices);
    let [firsts, seconds] = slices.map(CubeTensor::into_array_arg);
    let [first_sum, second_sum] = sums.clone().map(CubeTensor::into_array_arg);
    sum_of_slices_kernel::launch(
        &client,
        CubeCountSelection::new(&client, cubes).cube_count(),
        CubeDim::new_2d(COLUMNS, UNITS_PER_COLUMN),
        addresses,
        firsts,
        seconds,
        first_sum,
        second_sum,
        count,
        divisor,
    );
    sums
}
