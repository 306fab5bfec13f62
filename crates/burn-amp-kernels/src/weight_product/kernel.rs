use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::{prelude::*, server::CubeCountSelection};

use crate::cube::{
    names::{Buffer, shared},
    plan::{address_type, empty_on_device_of, storage, vector_size},
};

/// The vectors of columns that a cube adds: 128 bytes of each row.
const VECTORS: usize = 8;
/// The most units of a cube for one of these vectors.
const UNITS: usize = 128;
/// The rows of a unit, as long as there can be more units.
const ROWS: usize = 8;
/// The most rows of a unit: longer columns need more than one cube.
const MOST_ROWS: usize = 128;

/// Unit `(v, u)` of a cube adds the rows `u`, `u + units`, … of the cube's vector `v`; then the units add up their sums.
#[cube(launch, address_type = "dynamic")]
fn column_sums_kernel<F: Float, N: Size>(
    x: &Buffer<Vector<F, N>>,
    sums: &mut Buffer<Vector<f32, N>>,
    rows: usize,
    columns: usize,
    #[comptime] units: usize,
    #[define(F)] _dtype: StorageType,
) {
    let column = CUBE_POS * VECTORS + UNIT_POS_X as usize;
    let mut sum = Vector::<f32, N>::zeroed();
    if column < columns {
        for row in range_stepped(UNIT_POS_Y as usize, rows, units) {
            sum += Vector::cast_from(x[row * columns + column]);
        }
    }
    let mut parts = shared::<Vector<f32, N>>(comptime!(VECTORS * units));
    let place = UNIT_POS as usize;
    parts[place] = sum;
    sync_cube();
    #[unroll]
    for level in 0..comptime!(units.ilog2()) {
        let distance = comptime!(units >> (level + 1));
        if (UNIT_POS_Y as usize) < distance {
            let other = parts[place + distance * VECTORS];
            parts[place] += other;
        }
        sync_cube();
    }
    if UNIT_POS_Y == 0 && column < columns {
        sums[column] = parts[place];
    }
}

/// Returns the sums of the columns of a matrix, or `None` if its columns are too long for a cube.
pub(crate) fn column_sums<R: CubeRuntime>(x: &CubeTensor<R>) -> Option<CubeTensor<R>> {
    let [rows, n] = x.shape().dims();
    let client = x.client.clone();
    let limit = client.properties().hardware.max_units_per_cube as usize;
    let mut units = rows.div_ceil(ROWS).next_power_of_two().min(UNITS);
    while VECTORS * units > limit {
        units /= 2;
    }
    if x.dtype == DType::F64 || rows > units * MOST_ROWS || rows * n == 0 {
        return None;
    }
    let vector_size = vector_size(&client, x.dtype.size(), &[n]);
    let columns = n / vector_size;
    let sums = empty_on_device_of(x, Shape::new([n]), DType::F32);
    let cubes = columns.div_ceil(VECTORS) as u32;
    column_sums_kernel::launch(
        &client,
        CubeCountSelection::new(&client, cubes).cube_count(),
        CubeDim::new_2d(VECTORS as u32, units as u32),
        address_type([x, &sums]),
        vector_size,
        into_contiguous(x.clone()).into_array_arg(),
        sums.clone().into_array_arg(),
        rows,
        columns,
        units,
        storage(x.dtype),
    );
    Some(sums)
}
