use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::reshape, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::{
    cube::{
        names::Buffer,
        plan::{address_type, empty_on_device_of, storage, vector_size},
    },
    weight_product::column_sums_of,
};

/// The most units of a cube, each of which has a vector of columns.
const UNITS: usize = 64;
/// The most rows of the table that a cube has.
const GROUP: usize = 32;
/// The groups of rows that a large table has at least.
const GROUPS: usize = 64;
/// The cubes that keep a device busy.
const CUBES: usize = 1024;
/// The least indices that a slice has.
const SLICE: usize = 64;
/// The most cubes along a dimension.
const MOST: usize = 65_535;

/// Adds the rows of `grad` whose index is in the group of rows of the cube, `CUBE_POS_Y`, and whose place is in its slice,
/// `CUBE_POS_Z`. An index that is no row of the table is left out.
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
    #[define(F, I)] _dtypes: [StorageType; 2],
) {
    let column = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    if column >= columns {
        terminate!();
    }
    let first = CUBE_POS_Y as usize * group;
    let last = clamp_max(first + group, rows);
    let before = CUBE_POS_Z as usize * rows;
    for row in first..last {
        sums[(before + row) * columns + column] = Vector::zeroed();
    }
    let begin = CUBE_POS_Z as usize * slice;
    let end = clamp_max(begin + slice, length);
    for at in begin..end {
        let row = usize::cast_from(indices[at]);
        if row >= first && row < last {
            sums[(before + row) * columns + column] +=
                Vector::cast_from(grad[at * columns + column]);
        }
    }
}

/// How many rows of the table a cube has, and how many groups there are.
fn groups(rows: usize) -> (usize, usize) {
    let group = (rows / GROUPS).clamp(1, GROUP);
    (group, rows.div_ceil(group))
}

/// Whether a device can launch as many cubes.
pub(crate) fn takes<R: CubeRuntime>(grad: &CubeTensor<R>, rows: usize) -> bool {
    grad.meta.num_elements() > 0 && rows > 0 && groups(rows).1 <= MOST
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
    let (group, groups) = groups(rows);
    let cubes = columns.div_ceil(units);
    let slices = (CUBES / (cubes * groups)).clamp(1, length.div_ceil(SLICE));
    let sums = empty_on_device_of(&grad, Shape::new([slices, rows * n]), DType::F32);
    rows_sum_kernel::launch(
        &client,
        CubeCount::new_3d(cubes as u32, groups as u32, slices as u32),
        CubeDim::new_1d(units as u32),
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
        [storage(grad.dtype), storage(indices.dtype)],
    );
    let sums = match slices {
        1 => sums,
        _ => column_sums_of(&sums).expect("there are few slices"),
    };
    reshape(sums, Shape::new([rows, n]))
}
