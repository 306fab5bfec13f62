use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::reshape, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    cube::{
        names::{Buffer, shared},
        plan::{address_type, empty_on_device_of, storage, vector_size},
    },
    weight_product::column_sums_of,
};

/// The most vectors of columns that a cube has, each in a unit.
const UNITS: usize = 64;
/// The units of a cube with one row of the table, where several have the same vector of columns.
const UNITS_OF_ROW: usize = 256;
/// The most indices that cubes look through, all together, if each has a single row: 268 MB, which a cache
/// of 5 TB/s passes in some 50 µs. That is an estimate.
const LOOKS: usize = 1 << 26;
/// The rows of the table that a cube has otherwise.
const GROUP: usize = 32;
/// The cubes that keep a device busy.
const CUBES: usize = 1024;
/// The least indices that a unit looks through, if there are as many.
const SLICE: usize = 64;
/// The most cubes along a dimension.
const MOST: usize = 65_535;

/// Adds the rows of `grad` whose index is in the group of rows of the cube, `CUBE_POS_Y`, and whose place is in its slice,
/// `CUBE_POS_Z`. An index that is no row of the table is left out. Of a single row, `lanes` units share the places of a slice, and
/// the first of them adds their sums.
#[cube(launch, address_type = "dynamic")]
fn rows_sum_kernel<F: Float, I: Int, N: Size>(
    grad: &Buffer<Vector<F, N>>,
    indices: &Buffer<I>,
    sums: &mut Buffer<Vector<f32, N>>,
    rows: usize,
    columns: usize,
    length: usize,
    slice: usize,
    #[comptime] group: usize,
    #[comptime] lanes: usize,
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let first = CUBE_POS_Y as usize * group;
    let last = clamp_max(first + group, rows);
    let before = CUBE_POS_Z as usize * rows;
    let begin = CUBE_POS_Z as usize * slice;
    let end = clamp_max(begin + slice, length);
    if comptime!(lanes > 1) {
        let mut sum = Vector::<f32, N>::zeroed();
        if column < columns {
            for at in range_stepped(begin + UNIT_POS_Y as usize, end, lanes) {
                if usize::cast_from(indices[at]) == first {
                    sum += Vector::cast_from(grad[at * columns + column]);
                }
            }
        }
        let mut of_lanes = shared::<Vector<f32, N>>(UNITS_OF_ROW);
        of_lanes[UNIT_POS as usize] = sum;
        sync_cube();
        if UNIT_POS_Y == 0 && column < columns {
            for lane in 1..lanes {
                sum += of_lanes[lane * CUBE_DIM_X as usize + UNIT_POS_X as usize];
            }
            sums[(before + first) * columns + column] = sum;
        }
    } else if column < columns {
        for row in first..last {
            sums[(before + row) * columns + column] = Vector::zeroed();
        }
        for at in begin..end {
            let row = usize::cast_from(indices[at]);
            if row >= first && row < last {
                sums[(before + row) * columns + column] +=
                    Vector::cast_from(grad[at * columns + column]);
            }
        }
    }
}

/// How many rows of the table a cube has, and how many groups there are.
fn groups(rows: usize, length: usize) -> (usize, usize) {
    let is_single = rows <= MOST && rows * length <= LOOKS;
    let group = if is_single { 1 } else { GROUP };
    (group, rows.div_ceil(group))
}

/// Whether a device can launch as many cubes.
pub(crate) fn takes<R: CubeRuntime>(grad: &CubeTensor<R>, rows: usize) -> bool {
    let length = grad.meta.shape()[0];
    grad.meta.num_elements() > 0 && rows > 0 && groups(rows, length).1 <= MOST
}

/// Returns the sums of the rows of `grad` that have the same index, F32.
pub(crate) fn rows_sum<R: CubeRuntime>(
    grad: CubeTensor<R>,
    indices: CubeTensor<R>,
    rows: usize,
) -> CubeTensor<R> {
    let [length, n] = grad.shape().dims();
    let client = grad.client.clone();
    let vector_size = vector_size(&client, grad.dtype.size(), &[n]);
    let columns = n / vector_size;
    let units = columns.next_power_of_two().min(UNITS);
    let (group, groups) = groups(rows, length);
    let lanes = match group {
        1 => UNITS_OF_ROW / units,
        _ => 1,
    };
    let cubes = columns.div_ceil(units);
    let slices = (CUBES / (cubes * groups)).clamp(1, length.div_ceil(SLICE * lanes));
    let sums = empty_on_device_of(&grad, Shape::new([slices, rows * n]), DType::F32);
    rows_sum_kernel::launch(
        &client,
        CubeCount::new_3d(cubes as u32, groups as u32, slices as u32),
        CubeDim::new_2d(units as u32, lanes as u32),
        address_type([&grad, &sums]),
        vector_size,
        into_contiguous(grad.clone()).into_array_arg(),
        into_contiguous(indices.clone()).into_array_arg(),
        sums.clone().into_array_arg(),
        rows,
        columns,
        length,
        length.div_ceil(slices),
        group,
        lanes,
        [storage(grad.dtype), storage(indices.dtype)],
    );
    let sums = match slices {
        1 => sums,
        _ => column_sums_of(&sums).expect("there are few slices"),
    };
    reshape(sums, Shape::new([rows, n]))
}
