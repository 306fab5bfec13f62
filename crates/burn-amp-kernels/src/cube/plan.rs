//! How a kernel goes over the rows of its operands, decided on the host: where rows lie, and which units take them.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime,
    kernel::{cast, into_contiguous},
    ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, prelude::*, tensor_vector_size_parallel};

use super::{
    row::{AllRowsLaunch, RowsOfLaunch},
    team::Team,
};

/// A tensor whose rows are contiguous and equally far apart.
pub(crate) struct Rows<R: CubeRuntime> {
    pub tensor: CubeTensor<R>,
    /// The elements from the start of one row to the start of the next; 0 if one row is expanded to many.
    pub pitch: usize,
}

impl<R: CubeRuntime> Rows<R> {
    /// Takes the tensor in place if its rows allow it (padded, sliced, expanded), and a contiguous copy otherwise.
    pub fn new(tensor: CubeTensor<R>) -> Self {
        if let Some(pitch) = pitch(tensor.meta.shape(), tensor.meta.strides()) {
            return Self { tensor, pitch };
        }
        let tensor = into_contiguous(tensor);
        let pitch = row_length(&tensor);
        Self { tensor, pitch }
    }

    /// Passes the rows to a kernel.
    pub fn arg<F: Float, N: Size>(&self, plan: &Plan) -> RowsOfLaunch<F, N, R> {
        RowsOfLaunch::new(self.memory(), self.pitch / plan.vector_size)
    }

    /// Passes the memory of all rows to a kernel, with what lies between them.
    pub fn memory(&self) -> ArrayArg<R> {
        let row = row_length(&self.tensor);
        let rows = self.tensor.meta.num_elements() / row.max(1);
        array_of(&self.tensor, (rows - 1) * self.pitch + row)
    }

    /// Returns the type of the elements in memory.
    pub fn storage(&self) -> StorageType {
        storage(self.tensor.dtype)
    }
}

/// Passes the first `extent` elements of a tensor's memory to a kernel. As an array they come without shape and strides,
/// which CubeCL would upload before each launch.
pub(crate) fn array_of<R: CubeRuntime>(tensor: &CubeTensor<R>, extent: usize) -> ArrayArg<R> {
    let CubeTensor {
        client,
        device,
        handle,
        dtype,
        ..
    } = tensor.clone();
    CubeTensor::new_contiguous(client, device, Shape::new([extent]), handle, dtype).into_array_arg()
}

/// Swaps a dimension with the last one, along which the kernels compute, or swaps it back.
pub(crate) fn swap_with_last<R: CubeRuntime>(
    mut tensor: CubeTensor<R>,
    dim: usize,
) -> CubeTensor<R> {
    let rank = tensor.rank();
    tensor.meta.swap(dim, rank - 1);
    tensor
}

/// Casts a tensor to F32, unless it is F32.
pub(crate) fn in_f32<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    match tensor.dtype {
        DType::F32 => tensor,
        _ => cast(tensor, DType::F32),
    }
}

/// Returns the elements from one row to the next if all rows are equally far apart.
fn pitch(shape: &[usize], strides: &[usize]) -> Option<usize> {
    let last = shape.len() - 1;
    if strides[last] != 1 && shape[last] != 1 {
        return None;
    }
    let mut pitch = None;
    let mut rows = 1;
    for (&size, &stride) in shape[..last].iter().zip(strides).rev() {
        if size == 1 {
            continue;
        }
        if stride != *pitch.get_or_insert(stride) * rows {
            return None;
        }
        rows *= size;
    }
    Some(pitch.unwrap_or(shape[last]))
}

/// Returns the elements of a row.
pub(crate) fn row_length<R: CubeRuntime>(tensor: &CubeTensor<R>) -> usize {
    let shape = tensor.meta.shape();
    shape[shape.num_dims() - 1]
}

/// The most F32 numbers that a unit keeps of one tensor.
pub(crate) const KEPT: usize = 32;

/// How a kernel goes over the rows of its operands.
pub(crate) struct Plan {
    /// The number of rows.
    pub rows: usize,
    /// Elements per vector: as many as one load takes, if they divide rows evenly.
    pub vector_size: usize,
    /// Vectors per row.
    pub length: usize,
    pub team: Team,
}

impl Plan {
    /// Makes a plan for operands of equal shape, of each of which a unit keeps up to `kept` numbers.
    pub fn new<R: CubeRuntime, const N: usize>(operands: [&Rows<R>; N], kept: usize) -> Self {
        let tensor = &operands[0].tensor;
        let row = row_length(tensor);
        let mut lengths = operands.map(|operand| operand.pitch).to_vec();
        lengths.push(row);
        let vector_size = vector_size(&tensor.client, tensor.elem_size(), &lengths);
        let length = row / vector_size;
        Self {
            rows: tensor.meta.num_elements() / row,
            vector_size,
            length,
            team: Team::new(&tensor.client, length, kept / vector_size),
        }
    }

    /// Returns the launch of a team for each row.
    pub fn geometry<R: CubeRuntime>(&self, client: &ComputeClient<R>) -> (CubeCount, CubeDim) {
        self.team.launch(client, self.rows)
    }

    /// Passes the division of the rows to a kernel.
    pub fn all_rows<R: CubeRuntime>(&self) -> AllRowsLaunch<R> {
        AllRowsLaunch::new(self.rows, self.length, self.team)
    }
}

/// Returns the most elements of so many bytes that one load takes and that divide all the lengths.
pub(crate) fn vector_size<R: CubeRuntime>(
    client: &ComputeClient<R>,
    bytes: usize,
    lengths: &[usize],
) -> usize {
    let divides = |size: &usize| lengths.iter().all(|length| length.is_multiple_of(*size));
    let mut sizes = client.io_optimized_vector_sizes(bytes);
    sizes.find(divides).unwrap_or(1)
}

/// Returns the most elements of a tensor in any layout that one load takes.
pub(crate) fn strided_vector_size<R: CubeRuntime>(tensor: &CubeTensor<R>) -> usize {
    let sizes = tensor.client.io_optimized_vector_sizes(tensor.dtype.size());
    let meta = &tensor.meta;
    tensor_vector_size_parallel(sizes, meta.shape(), meta.strides(), meta.rank() - 1)
}

/// Returns which of some optional arguments there are, as bits.
///
/// A kernel that differs from another one in which of two arguments it has must have this among its arguments: CubeCL 0.10
/// hashes an argument that is there as its content, and one that is not as nothing, and in its cache on disk
/// (`[compilation] cache` of `cubecl.toml`) a kernel is known by its hash only. One of the two would be run as the other.
pub(crate) fn given<const COUNT: usize>(are_there: [bool; COUNT]) -> u32 {
    let bits = are_there.into_iter().enumerate();
    bits.map(|(place, is_there)| u32::from(is_there) << place)
        .sum()
}

/// Returns the cubes, and the units of each, of a kernel each of whose units has one of `count` elements or vectors.
pub(crate) fn one_each<R: CubeRuntime>(
    client: &ComputeClient<R>,
    count: usize,
) -> (CubeCount, CubeDim) {
    let units = CubeDim::new(client, count);
    (calculate_cube_count_elemwise(client, count, units), units)
}

/// Returns the type of a tensor's elements in memory.
pub(crate) fn storage(dtype: DType) -> StorageType {
    let dtype = match dtype {
        DType::Flex32 => DType::F32,
        dtype => dtype,
    };
    #[cfg(not(burn_0_22))]
    return dtype.into();
    #[cfg(burn_0_22)]
    return burn_backend::cubecl::dtype_to_elem_type(dtype);
}

/// Returns indices as wide as the largest of the tensors needs.
pub(crate) fn address_type<'a, R: CubeRuntime>(
    tensors: impl IntoIterator<Item = &'a CubeTensor<R>>,
) -> AddressType {
    tensors
        .into_iter()
        .map(CubeTensor::required_address_type)
        .max()
        .unwrap_or_default()
}

/// Returns the shape of a tensor with one element per row of `tensor`.
pub(crate) fn one_per_row<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Shape {
    let mut dims = tensor.meta.shape().to_vec();
    dims[tensor.rank() - 1] = 1;
    Shape::from(dims)
}

/// Makes an uninitialized contiguous tensor on the device of another.
pub(crate) fn empty_on_device_of<R: CubeRuntime>(
    tensor: &CubeTensor<R>,
    shape: Shape,
    dtype: DType,
) -> CubeTensor<R> {
    empty_device_contiguous_dtype(tensor.client.clone(), tensor.device.clone(), shape, dtype)
}

#[cfg(test)]
mod tests {
    use super::pitch;

    #[test]
    fn rows_are_taken_as_they_are_if_they_are_equally_far_apart() {
        for (shape, strides, expected) in [
            (&[5][..], &[1][..], Some(5)),
            (&[3, 5], &[5, 1], Some(5)),
            // Padded.
            (&[2, 3, 5], &[24, 8, 1], Some(8)),
            // A dimension of size 1: its stride means nothing.
            (&[1, 1, 5], &[7, 99, 1], Some(5)),
            (&[2, 1, 5], &[8, 99, 1], Some(8)),
            // Expanded.
            (&[2, 3, 5], &[0, 0, 1], Some(0)),
            (&[2, 3, 5], &[0, 5, 1], None),
            (&[2, 3, 5], &[5, 0, 1], None),
            (&[3, 5], &[1, 0], None),
            // Swapped.
            (&[3, 5], &[1, 3], None),
            (&[2, 3, 5], &[5, 10, 1], None),
            // Rows of one element.
            (&[3, 1], &[4, 9], Some(4)),
            // Cut out of more rows.
            (&[2, 3, 5], &[20, 5, 1], None),
        ] {
            assert_eq!(pitch(shape, strides), expected, "{shape:?} {strides:?}");
        }
    }
}
