//! Where a row of a mask lies that is broadcast to the rows of the operand.

use burn_backend::{DType, Shape, ops::BoolTensorOps};
use burn_cubecl::{CubeBackend, CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::plan::row_length;

/// The most runs of dimensions along which a mask may change.
const RUNS: usize = 2;

/// Neighbouring dimensions along which a mask changes by equal steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The rows of the operand from one step to the next.
    rows: usize,
    steps: usize,
    /// The elements of the mask from one step to the next.
    stride: usize,
}

/// The rows of a mask.
pub(super) struct MaskRows<R: CubeRuntime> {
    mask: CubeTensor<R>,
    runs: [Run; RUNS],
}

/// A run of one step: the mask does not change.
impl Default for Run {
    fn default() -> Self {
        Self {
            rows: 1,
            steps: 1,
            stride: 0,
        }
    }
}

impl<R: CubeRuntime> MaskRows<R> {
    /// Takes a mask in place if its rows allow it, and a contiguous copy otherwise. `vector_size`: elements per read.
    pub fn new(mask: CubeTensor<R>, operand: &Shape, vector_size: usize) -> Self {
        let of = |mask: &CubeTensor<R>| {
            runs(
                mask.meta.shape(),
                mask.meta.strides(),
                operand.as_slice(),
                vector_size,
            )
        };
        if let Some(runs) = of(&mask) {
            return Self { mask, runs };
        }
        let mask = into_contiguous(mask);
        if let Some(runs) = of(&mask) {
            return Self { mask, runs };
        }
        let expanded = CubeBackend::<R, f32, i32, u8>::bool_expand(mask, operand.clone());
        let mask = into_contiguous(expanded);
        let runs = of(&mask).expect("the rows of a contiguous tensor are equally far apart");
        Self { mask, runs }
    }

    /// Passes the memory from the first row's start to the last row's end to a kernel.
    pub fn array_arg(&self) -> ArrayArg<R> {
        let steps = self.runs.iter().map(|run| (run.steps - 1) * run.stride);
        let extent = steps.sum::<usize>() + row_length(&self.mask);
        let CubeTensor {
            client,
            device,
            handle,
            dtype,
            ..
        } = self.mask.clone();
        CubeTensor::new_contiguous(client, device, Shape::new([extent]), handle, dtype)
            .into_array_arg()
    }

    pub fn dtype(&self) -> DType {
        self.mask.dtype
    }

    pub fn runs(&self) -> [Run; RUNS] {
        self.runs
    }
}

/// Returns the runs of a mask; `None` if there are too many, or if its rows cannot be read in vectors.
fn runs(
    shape: &[usize],
    strides: &[usize],
    operand: &[usize],
    vector_size: usize,
) -> Option<[Run; RUNS]> {
    let last = operand.len() - 1;
    if shape[last] != operand[last] || strides[last] != 1 && shape[last] != 1 {
        return None;
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut rows = 1;
    let mut continues = false;
    for dim in (0..last).rev() {
        let (size, stride) = (shape[dim], strides[dim]);
        if operand[dim] == 1 {
            continue;
        }
        let is_broadcast = size == 1 || stride == 0;
        match runs.last_mut() {
            _ if is_broadcast => {}
            Some(run) if continues && stride == run.stride * run.steps => run.steps *= size,
            _ => runs.push(Run {
                rows,
                steps: size,
                stride,
            }),
        }
        continues = !is_broadcast;
        rows *= operand[dim];
    }
    let is_readable = |run: &Run| run.stride.is_multiple_of(vector_size);
    if runs.len() > RUNS || !runs.iter().all(is_readable) {
        return None;
    }
    runs.resize(RUNS, Run::default());
    runs.try_into().ok()
}

/// Passes the place of a row to a kernel that reads `vector_size` elements at once.
pub(super) fn place<R: CubeRuntime>(runs: [Run; RUNS], vector_size: usize) -> MaskPlaceLaunch<R> {
    let [a, b] = runs;
    MaskPlaceLaunch::new(
        a.rows,
        a.steps,
        a.stride / vector_size,
        b.rows,
        b.steps,
        b.stride / vector_size,
    )
}

/// The place of a row in a kernel.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct MaskPlace {
    a_rows: usize,
    a_steps: usize,
    a_stride: usize,
    b_rows: usize,
    b_steps: usize,
    b_stride: usize,
}

#[cube]
impl MaskPlace {
    /// Returns the mask's first vector for a row of the operand.
    pub fn of(&self, row: usize) -> usize {
        row / self.a_rows % self.a_steps * self.a_stride
            + row / self.b_rows % self.b_steps * self.b_stride
    }
}

#[cfg(test)]
mod tests {
    use super::{Run, runs};

    fn run(rows: usize, steps: usize, stride: usize) -> Run {
        Run {
            rows,
            steps,
            stride,
        }
    }

    #[test]
    fn a_mask_is_read_by_the_runs_along_which_it_changes() {
        let none = Run::default();
        let operand = [2, 3, 4, 8];
        for (shape, strides, expected) in [
            // Queries and keys.
            ([1, 1, 4, 8], [32, 32, 8, 1], Some([run(1, 4, 8), none])),
            // Items and keys: the padding of a batch.
            ([2, 1, 1, 8], [8, 8, 8, 1], Some([run(12, 2, 8), none])),
            // Items, queries and keys.
            (
                [2, 1, 4, 8],
                [32, 32, 8, 1],
                Some([run(1, 4, 8), run(12, 2, 32)]),
            ),
            // Everything: one run.
            ([2, 3, 4, 8], [96, 32, 8, 1], Some([run(1, 24, 8), none])),
            // Expanded, with padded rows.
            ([2, 3, 4, 8], [0, 0, 16, 1], Some([run(1, 4, 16), none])),
            // Heads and keys.
            ([1, 3, 1, 8], [24, 8, 8, 1], Some([run(4, 3, 8), none])),
            // Nothing but keys.
            ([1, 1, 1, 8], [8, 8, 8, 1], Some([none, none])),
            // Swapped: keys are not next to each other.
            ([1, 1, 4, 8], [32, 32, 1, 4], None),
            // One value per row.
            ([1, 1, 4, 1], [4, 4, 1, 1], None),
            // Rows that vectors of 4 do not divide.
            ([1, 1, 4, 8], [36, 36, 9, 1], None),
        ] {
            assert_eq!(
                runs(&shape, &strides, &operand, 4),
                expected,
                "{shape:?} {strides:?}"
            );
        }
        // Items, heads of every second group, keys: three runs.
        let strides = [8 * 5, 8 * 2, 0, 8, 1];
        assert_eq!(runs(&[2, 2, 2, 2, 8], &strides, &[2, 2, 2, 2, 8], 1), None);
    }
}
