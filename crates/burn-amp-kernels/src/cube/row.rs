//! Rows of tensors: on the host where they lie, in a kernel what a unit has of one.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::team::Team;

/// A tensor whose rows are contiguous and equally far apart.
pub(crate) struct Rows<R: CubeRuntime> {
    pub tensor: CubeTensor<R>,
    /// Elements from the start of a row to the next; 0 for one row that is expanded to many.
    pub pitch: usize,
}

impl<R: CubeRuntime> Rows<R> {
    /// The tensor as it is, as it may be padded, sliced or expanded, or else a contiguous copy.
    pub fn new(tensor: CubeTensor<R>) -> Self {
        if let Some(pitch) = pitch(tensor.meta.shape(), tensor.meta.strides()) {
            return Self { tensor, pitch };
        }
        let tensor = into_contiguous(tensor);
        let pitch = last(&tensor);
        Self { tensor, pitch }
    }
}

/// From one row to the next, if all are equally far apart.
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

/// The elements of a row.
pub(crate) fn last<R: CubeRuntime>(tensor: &CubeTensor<R>) -> usize {
    let shape = tensor.meta.shape();
    shape[shape.num_dims() - 1]
}

/// What a unit keeps of one tensor at most, in F32 numbers.
pub(crate) const KEPT: usize = 32;

/// How a kernel goes over the rows of its operands.
pub(crate) struct Plan {
    /// How many rows there are.
    pub rows: usize,
    /// Elements per vector: the most that a load takes and rows can be cut into.
    pub vector_size: usize,
    /// Vectors per row.
    pub length: usize,
    pub team: Team,
}

impl Plan {
    /// A plan for operands of the shape of the first, of each of which a unit keeps up to `kept` numbers.
    pub fn new<R: CubeRuntime, const N: usize>(operands: [&Rows<R>; N], kept: usize) -> Self {
        let tensor = &operands[0].tensor;
        let row = last(tensor);
        let vector_size = tensor
            .client
            .io_optimized_vector_sizes(tensor.elem_size())
            .find(|size| {
                row.is_multiple_of(*size)
                    && operands
                        .iter()
                        .all(|operand| operand.pitch.is_multiple_of(*size))
            })
            .unwrap_or(1);
        let length = row / vector_size;
        Self {
            rows: tensor.meta.num_elements() / row,
            vector_size,
            length,
            team: Team::new(&tensor.client, length, kept / vector_size),
        }
    }
}

/// What a tensor's elements are in memory.
pub(crate) fn storage(dtype: DType) -> StorageType {
    match dtype {
        DType::Flex32 => DType::F32.into(),
        dtype => dtype.into(),
    }
}

/// Indices as wide as the largest of the tensors needs.
pub(crate) fn address_type<R: CubeRuntime, const N: usize>(
    tensors: [&CubeTensor<R>; N],
) -> AddressType {
    tensors
        .into_iter()
        .map(CubeTensor::required_address_type)
        .max()
        .unwrap_or_default()
}

/// The shape of what there is one of per row.
pub(crate) fn of_rows<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Shape {
    let mut dims = tensor.meta.shape().to_vec();
    dims[tensor.rank() - 1] = 1;
    Shape::from(dims)
}

/// A new contiguous tensor beside another.
pub(crate) fn empty_beside<R: CubeRuntime>(
    tensor: &CubeTensor<R>,
    shape: Shape,
    dtype: DType,
) -> CubeTensor<R> {
    empty_device_contiguous_dtype(tensor.client.clone(), tensor.device.clone(), shape, dtype)
}

/// A row, and the place in its team of this unit.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Row {
    /// The number of a row that exists, also for a team that has none.
    pub index: usize,
    /// In vectors; 0 for a team that has no row.
    pub length: usize,
    lane: usize,
    #[cube(comptime)]
    team: Team,
}

#[cube]
impl Row {
    /// The row `index` of `count`.
    pub fn new(index: usize, count: usize, length: usize, #[comptime] team: Team) -> Row {
        Row {
            index: index.min(count - 1),
            length: select(index < count, length, 0),
            lane: UNIT_POS as usize % team.units,
            team,
        }
    }

    /// How many vectors a unit has at most: a constant if they are kept.
    pub fn steps(&self) -> usize {
        if comptime!(self.team.kept > 0) {
            comptime!(self.team.kept).runtime()
        } else {
            self.length.div_ceil(self.team.units)
        }
    }

    /// Where in the row this unit's vector of a step is.
    pub fn column(&self, step: usize) -> usize {
        self.lane + step * self.team.units
    }

    /// Whether this unit has a vector at a step.
    pub fn has(&self, step: usize) -> bool {
        self.column(step) < self.length
    }

    /// Whether this unit writes what there is once per row.
    pub fn leads(&self) -> bool {
        self.lane == 0 && self.length > 0
    }
}

/// What this unit has of a row of one tensor, in F32.
#[derive(CubeType)]
pub(crate) struct Share<F: Float, N: Size> {
    row: Row,
    memory: Slice<Vector<F, N>>,
    registers: Array<Vector<f32, N>>,
    #[cube(comptime)]
    kept: usize,
}

#[cube]
impl<F: Float, N: Size> Share<F, N> {
    /// Reads what is kept.
    pub fn new(
        tensor: &Tensor<Vector<F, N>>,
        pitch: usize,
        row: Row,
        #[comptime] team: Team,
    ) -> Share<F, N> {
        let start = row.index * pitch;
        let memory = tensor.slice(start, start + row.length);
        let mut registers = Array::new(comptime!(team.kept.max(1)));
        #[unroll]
        for step in 0..team.kept {
            if row.has(step) {
                registers[step] = Vector::cast_from(memory[row.column(step)]);
            }
        }
        Share::<F, N> {
            row,
            memory,
            registers,
            kept: team.kept,
        }
    }

    /// Keeps another vector in place of that of a step, if vectors are kept.
    pub fn keep(&mut self, step: usize, vector: Vector<f32, N>) {
        if comptime!(self.kept > 0) {
            self.registers[step] = vector;
        }
    }

    /// The first element of the row, as a vector.
    pub fn first(&self) -> Vector<f32, N> {
        Vector::new(f32::cast_from(self.memory[0][0]))
    }

    /// The vector of a step at which this unit has one.
    pub fn at(&self, step: usize) -> Vector<f32, N> {
        if comptime!(self.kept > 0) {
            self.registers[step]
        } else {
            Vector::cast_from(self.memory[self.row.column(step)])
        }
    }
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
            // One of one row, however far the next would be.
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
