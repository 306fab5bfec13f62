//! How the dimensions of a tensor are made of those of another one, after transpositions and reshapes that have not been
//! computed.

use burn_backend::Shape;

/// A tensor seen as another shape.
///
/// The dimensions of the source are split into *atoms*, and each dimension of the view is a list of atoms. So
/// `[n, c, h, w]` after `swap_dims(0, 1)` and `reshape([c, n · h · w])` is `[[c], [n, h, w]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The sizes of the atoms, in the order of the source.
    atoms: Vec<usize>,
    /// The atoms of each dimension, outermost first. Atoms of size 1 may be in none.
    dims: Vec<Vec<usize>>,
}

/// A split of an atom in two: its number, and the size of the outer part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    atom: usize,
    outer: usize,
}

impl View {
    /// The tensor as it is.
    pub(crate) fn of(shape: &Shape) -> Self {
        Self {
            atoms: shape.as_slice().to_vec(),
            dims: (0..shape.num_dims()).map(|dim| vec![dim]).collect(),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        let size = |dim: &Vec<usize>| dim.iter().map(|atom| self.atoms[*atom]).product();
        self.dims.iter().map(size).collect::<Vec<usize>>().into()
    }

    /// The shape of the source, split into atoms.
    pub(crate) fn grid(&self) -> Shape {
        self.atoms.clone().into()
    }

    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        Self {
            atoms: self.atoms.clone(),
            dims: axes.iter().map(|axis| self.dims[*axis].clone()).collect(),
        }
    }

    /// The view in another shape, and the atoms that are split for it, one after the other. `None` if the new dimensions
    /// cut through atoms.
    pub(crate) fn reshaped(&self, shape: &Shape) -> Option<(Self, Vec<Split>)> {
        let mut view = self.clone();
        let mut splits = Vec::new();
        // The atoms that have no new dimension yet, the next one last.
        let mut rest: Vec<usize> = self.order().into_iter().rev().collect();
        let mut dims: Vec<Vec<usize>> = Vec::with_capacity(shape.num_dims());
        for size in shape.as_slice() {
            let mut missing = *size;
            let mut dim = Vec::new();
            while missing > 1 {
                let atom = rest.pop()?;
                let atom_size = view.atoms[atom];
                if missing.is_multiple_of(atom_size) {
                    missing /= atom_size;
                    dim.push(atom);
                } else if atom_size.is_multiple_of(missing) {
                    let split = Split {
                        atom,
                        outer: missing,
                    };
                    view.atoms = split.of(&view.atoms);
                    let renumbered = [&mut rest, &mut dim].into_iter().chain(&mut dims);
                    renumbered
                        .flatten()
                        .filter(|other| **other > atom)
                        .for_each(|other| *other += 1);
                    rest.push(atom + 1);
                    dim.push(atom);
                    splits.push(split);
                    missing = 1;
                } else {
                    return None;
                }
            }
            dims.push(dim);
        }
        view.dims = dims;
        rest.is_empty().then_some((view, splits))
    }

    /// The shape in the grid of a tensor that is broadcast to the view; `None` if it has other dimensions.
    pub(crate) fn in_grid(&self, broadcast: &Shape) -> Option<Shape> {
        let shape = self.shape();
        let sizes = || broadcast.as_slice().iter().zip(shape.as_slice());
        if broadcast.num_dims() != shape.num_dims()
            || sizes().any(|(size, full)| *size != 1 && size != full)
        {
            return None;
        }
        let mut grid = vec![1; self.atoms.len()];
        for (dim, size) in self.dims.iter().zip(broadcast.as_slice()) {
            for atom in dim.iter().filter(|_| *size != 1) {
                grid[*atom] = self.atoms[*atom];
            }
        }
        Some(grid.into())
    }

    /// The shape in the grid of a reduction over some of the dimensions.
    pub(crate) fn reduced(&self, is_reduced: impl Fn(usize) -> bool) -> Shape {
        let mut grid = self.atoms.clone();
        for (_, dim) in self
            .dims
            .iter()
            .enumerate()
            .filter(|(dim, _)| is_reduced(*dim))
        {
            dim.iter().for_each(|atom| grid[*atom] = 1);
        }
        grid.into()
    }

    /// The order of the grid's dimensions in the view; those of size 1 are left out.
    fn order(&self) -> Vec<usize> {
        let atoms = self.dims.iter().flatten().copied();
        atoms.filter(|atom| self.atoms[*atom] != 1).collect()
    }

    /// The permutation that brings a tensor of the grid's rank, with the sizes of `shape`, into the order of the view;
    /// `None` if a reshape is enough.
    pub(crate) fn permutation(&self, shape: &Shape) -> Option<Vec<usize>> {
        let order = self.order();
        let moving = order.iter().copied().filter(|atom| shape[*atom] != 1);
        if moving.is_sorted() {
            return None;
        }
        let fixed = (0..self.atoms.len()).filter(|atom| self.atoms[*atom] == 1);
        Some(order.iter().copied().chain(fixed).collect())
    }
}

impl Split {
    /// Splits the sizes of a tensor in which the atom has its size or 1.
    pub(crate) fn of(self, sizes: &[usize]) -> Vec<usize> {
        let (before, after) = sizes.split_at(self.atom);
        let parts = match after[0] {
            1 => [1, 1],
            size => [self.outer, size / self.outer],
        };
        before
            .iter()
            .copied()
            .chain(parts)
            .chain(after[1..].iter().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::View;

    #[test]
    fn a_batch_norm_sees_channels_and_the_rest() {
        let view = View::of(&[2, 3, 4, 5].into()).permuted(&[1, 0, 2, 3]);
        let (view, splits) = view.reshaped(&[3, 40].into()).unwrap();
        assert_eq!(splits, []);
        assert_eq!(view.dims, [vec![1], vec![0, 2, 3]]);
        assert_eq!(view.reduced(|dim| dim == 1), [1, 3, 1, 1].into());
        assert_eq!(view.in_grid(&[3, 1].into()), Some([1, 3, 1, 1].into()));
        assert_eq!(view.permutation(&[1, 3, 1, 1].into()), None);
        assert_eq!(view.permutation(&view.grid()), Some(vec![1, 0, 2, 3]));
    }

    #[test]
    fn a_group_norm_splits_what_it_joined() {
        let (view, splits) = View::of(&[2, 3, 40].into())
            .reshaped(&[2, 6, 4, 5].into())
            .unwrap();
        assert_eq!(view.grid(), [2, 3, 2, 4, 5].into());
        assert_eq!(view.dims, [vec![0], vec![1, 2], vec![3], vec![4]]);
        let split = |sizes: Vec<usize>| splits.iter().fold(sizes, |sizes, split| split.of(&sizes));
        assert_eq!(split(vec![2, 3, 1]), [2, 3, 1, 1, 1]);
        assert_eq!(
            view.in_grid(&[1, 6, 1, 1].into()),
            Some([1, 3, 2, 1, 1].into())
        );
    }

    #[test]
    fn a_view_is_undone_by_its_inverse() {
        let source = View::of(&[2, 3, 4].into());
        let view = source.permuted(&[2, 0, 1]).permuted(&[1, 2, 0]);
        assert_eq!(view, source);
        let (flat, _) = source.reshaped(&[24].into()).unwrap();
        let (back, splits) = flat.reshaped(&[2, 3, 4].into()).unwrap();
        assert_eq!((back, splits), (source, vec![]));
    }

    #[test]
    fn dimensions_that_cut_through_atoms_are_refused() {
        let view = View::of(&[4, 6].into());
        assert_eq!(view.reshaped(&[3, 8].into()), None);
        assert_eq!(view.reshaped(&[4, 7].into()), None);
        assert!(view.reshaped(&[2, 12].into()).is_some());
        assert_eq!(view.in_grid(&[4].into()), None);
        assert_eq!(view.in_grid(&[2, 6].into()), None);
    }
}
