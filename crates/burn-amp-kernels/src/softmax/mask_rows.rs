//! Where a row of a mask lies that is broadcast to the rows of the operand.

use burn_backend::Shape;
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    names::{OwnedBuffer, expanded},
    plan::{array_of, row_length},
};

/// The most runs of dimensions along which a mask may change.
const RUNS: usize = 2;

/// Neighbouring dimensions along which a mask changes by equal steps.
#[derive(CubeType, CubeLaunch, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The rows of the operand from one step to the next.
    rows: usize,
    steps: usize,
    /// The elements of the mask from one step to the next, or in a kernel the vectors.
    stride: usize,
}

#[cube]
impl Run {
    /// Returns how far a row of the operand is along the run.
    fn of(&self, row: usize) -> usize {
        row / self.rows % self.steps * self.stride
    }
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

/// A mask in a kernel.
#[derive(CubeType, CubeLaunch)]
pub(super) struct MaskRows<M: Int, N: Size> {
    elements: OwnedBuffer<Vector<M, N>>,
    /// What masked elements get, if a kernel reads it.
    value: Sequence<f32>,
    first: Run,
    second: Run,
}

#[cube]
impl<M: Int, N: Size> MaskRows<M, N> {
    /// Returns the place of the first vector for a row of the operand.
    pub fn start(&self, row: usize) -> usize {
        self.first.of(row) + self.second.of(row)
    }

    pub fn value(&self) -> f32 {
        *self.value.index(0usize)
    }

    /// Returns a vector with the value where the mask is; `at` is its place in the mask.
    pub fn filled(&self, x: Vector<f32, N>, value: f32, at: usize) -> Vector<f32, N> {
        select_many(Vector::cast_from(self.elements[at]), Vector::new(value), x)
    }
}

/// Passes a mask to a kernel that reads `vector_size` elements at once: in place if its rows allow it, otherwise a
/// contiguous copy.
pub(super) fn mask_rows<R: CubeRuntime, M: Int, N: Size>(
    mask: CubeTensor<R>,
    value: Option<f32>,
    operand: &Shape,
    vector_size: usize,
) -> MaskRowsLaunch<M, N, R> {
    let runs = |mask: &CubeTensor<R>| {
        let (shape, strides) = (mask.meta.shape(), mask.meta.strides());
        runs(shape, strides, operand.as_slice(), vector_size)
    };
    let found = |mask: CubeTensor<R>| runs(&mask).map(|runs| (mask, runs));
    let (mask, runs) = found(mask.clone())
        .or_else(|| found(into_contiguous(mask.clone())))
        .or_else(|| found(into_contiguous(expanded(mask, operand.clone()))))
        .expect("the rows of a contiguous tensor are equally far apart");
    let steps = runs.iter().map(|run| (run.steps - 1) * run.stride);
    let extent = steps.sum::<usize>() + row_length(&mask);
    let [first, second] =
        runs.map(|run| RunLaunch::new(run.rows, run.steps, run.stride / vector_size));
    let value = value.into_iter().collect();
    MaskRowsLaunch::new(array_of(&mask, extent), value, first, second)
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
