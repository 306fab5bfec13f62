//! How the kernels go over `x`, decided on the host: in the order of memory, in few dimensions.

use burn_backend::{Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};

use crate::cube::layout::order_of;

/// The most dimensions that the kernels distinguish.
pub(super) const DIMS: usize = 4;

/// The order of a tensor's dimensions in memory, and its grid in that order.
pub(super) struct Layout {
    /// The dimensions of `x`, outermost first.
    pub(super) order: Vec<usize>,
    /// The dimensions of the grid, outermost first.
    pub(super) grid_order: Vec<usize>,
    grid: Vec<usize>,
    /// Neighbouring dimensions of the grid along which each factor is either constant or not, as ranges of
    /// `grid_order`.
    merged: Vec<std::ops::Range<usize>>,
}

impl Layout {
    /// Returns the layout of `x` for factors of the given shapes; `None` if the kernels cannot distinguish so many
    /// dimensions.
    pub(super) fn new<R: CubeRuntime>(
        x: &CubeTensor<R>,
        grid: &Shape,
        factors: &[Shape],
    ) -> Option<Self> {
        let order = order_of(x);
        let dims = split(x.meta.shape(), grid.as_slice());
        let (order, grid_order) = match dims {
            Some(dims) => {
                let grid_order = order.iter().flat_map(|dim| dims[*dim].clone()).collect();
                (order, grid_order)
            }
            // The grid joins dimensions, so it can only be read in its own order.
            None => (
                (0..x.rank()).collect(),
                (0..grid.num_dims()).collect::<Vec<_>>(),
            ),
        };
        let mut merged: Vec<std::ops::Range<usize>> = Vec::new();
        for (at, dim) in grid_order.iter().enumerate() {
            if grid[*dim] == 1
                && let Some(last) = merged.last_mut()
            {
                last.end = at + 1;
                continue;
            }
            let is_alike = |other: usize| {
                factors
                    .iter()
                    .all(|factor| grid[other] == 1 || (factor[other] == 1) == (factor[*dim] == 1))
            };
            match merged.last_mut() {
                Some(last) if last.clone().all(|at| is_alike(grid_order[at])) => last.end = at + 1,
                _ => merged.push(at..at + 1),
            }
        }
        (merged.len() <= DIMS).then(|| Self {
            order,
            grid_order,
            grid: grid.as_slice().to_vec(),
            merged,
        })
    }

    /// The sizes of the kernels' dimensions, outermost first.
    pub(super) fn sizes(&self) -> [usize; DIMS] {
        self.fold(|dim| self.grid[dim])
    }

    /// Which of the kernels' dimensions a tensor of a shape in the grid varies along, as bits.
    pub(super) fn varies(&self, shape: &Shape) -> u32 {
        let sizes = self.fold(|dim| shape[dim]).into_iter().enumerate();
        let bits = sizes.map(|(dim, size)| u32::from(size > 1) << dim);
        bits.sum()
    }

    /// The sizes of a tensor in the kernels' dimensions; of missing dimensions 1, outermost.
    fn fold(&self, size: impl Fn(usize) -> usize) -> [usize; DIMS] {
        let mut sizes = [1; DIMS];
        let missing = DIMS - self.merged.len();
        for (to, range) in sizes[missing..].iter_mut().zip(&self.merged) {
            *to = range.clone().map(|at| size(self.grid_order[at])).product();
        }
        sizes
    }
}

/// The dimensions of the grid that each dimension of `x` is split into; `None` if the grid joins dimensions.
fn split(shape: &[usize], grid: &[usize]) -> Option<Vec<Vec<usize>>> {
    let mut next = 0;
    let mut dims = Vec::with_capacity(shape.len());
    for size in shape {
        let (mut product, mut parts) = (1, Vec::new());
        while product < *size || (parts.is_empty() && next < grid.len()) {
            product *= grid.get(next)?;
            parts.push(next);
            next += 1;
        }
        if product != *size {
            return None;
        }
        dims.push(parts);
    }
    while next < grid.len() && grid[next] == 1 {
        dims.last_mut()?.push(next);
        next += 1;
    }
    (next == grid.len()).then_some(dims)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_grid_splits_dimensions() {
        let dims = |shape: &[usize], grid: &[usize]| split(shape, grid);
        assert_eq!(dims(&[2, 6], &[2, 6]), Some(vec![vec![0], vec![1]]));
        assert_eq!(
            dims(&[2, 6, 5], &[2, 3, 2, 5]),
            Some(vec![vec![0], vec![1, 2], vec![3]])
        );
        assert_eq!(dims(&[2, 6], &[12]), None);
        assert_eq!(dims(&[1, 6], &[1, 6, 1]), Some(vec![vec![0], vec![1, 2]]));
    }
}
