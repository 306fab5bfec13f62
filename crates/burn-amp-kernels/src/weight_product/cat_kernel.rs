use burn_backend::TensorMetadata;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    lists::{geometry, most_tensors},
    plan::{address_type, empty_on_device_of, storage},
};

/// The most matrices that a launch reads.
const MATRICES: usize = 16;

/// Every unit strides over all matrices. Matrix `i` is copied to the vectors of `rows` from `starts[i]` on.
#[cube(launch, address_type = "dynamic")]
fn cat_rows_kernel<F: Numeric, N: Size>(
    matrices: &Sequence<Array<Vector<F, N>>>,
    starts: &Sequence<usize>,
    lengths: &Sequence<usize>,
    rows: &mut Array<Vector<F, N>>,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..matrices.len() {
        let matrix = matrices.index(at);
        let start = *starts.index(at);
        let length = *lengths.index(at);
        let mut position = ABSOLUTE_POS;
        while position < length {
            rows[start + position] = matrix[position];
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
}

/// Puts the rows of matrices of one dtype and one number of columns below one another.
pub(crate) fn cat_rows<R: CubeRuntime>(matrices: Vec<CubeTensor<R>>) -> CubeTensor<R> {
    /// The result, and the buffer in which CubeCL passes sizes.
    const OTHER_BUFFERS: usize = 2;

    let first = &matrices[0];
    let client = first.client.clone();
    let mut shape = first.shape();
    shape[0] = matrices.iter().map(|matrix| matrix.shape()[0]).sum();
    let columns = shape[1];
    let rows = empty_on_device_of(first, shape, first.dtype);
    let vector_size = client
        .io_optimized_vector_sizes(first.dtype.size())
        .find(|size| columns.is_multiple_of(*size))
        .unwrap_or(1);
    let bindings = client.properties().hardware.max_bindings as usize;
    let most = most_tensors(bindings, 1, OTHER_BUFFERS).min(MATRICES);
    let filled: Vec<_> = matrices
        .into_iter()
        .filter(|matrix| matrix.meta.num_elements() > 0)
        .map(into_contiguous)
        .collect();
    let mut start = 0;
    for part in filled.chunks(most) {
        let address = address_type(part.iter().chain([&rows]));
        let mut views = SequenceArg::new();
        let (mut starts, mut lengths) = (SequenceArg::new(), SequenceArg::new());
        let mut longest = 0;
        for matrix in part {
            let length = matrix.meta.num_elements() / vector_size;
            views.push(matrix.clone().into_array_arg());
            starts.push(start);
            lengths.push(length);
            start += length;
            longest = longest.max(length);
        }
        let (cubes, units) = geometry(&client, longest);
        cat_rows_kernel::launch::<R>(
            &client,
            cubes,
            units,
            address,
            vector_size,
            views,
            starts,
            lengths,
            rows.clone().into_array_arg(),
            storage(rows.dtype),
        );
    }
    rows
}
