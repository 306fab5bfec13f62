//! Counts what graphs keep for their backward passes.

use std::collections::HashMap;

use burn_amp_core::{
    Op,
    report::{Kept, Site},
};
use burn_amp_kernels::made::{Made, Memory};

/// The tensors that ops have made, and how many of them were still in use when backward passes began.
#[derive(Default)]
pub(super) struct Keeping {
    /// By the address of their memory.
    made: HashMap<usize, (Alike, Memory)>,
    kept: Tally,
    /// Whether the backend has weak references to memory.
    is_told: bool,
}

/// The number and the bytes of tensors.
#[derive(Default)]
pub(super) struct Tally(HashMap<Alike, (u64, u64)>);

/// What tensors have in common that are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    pub(super) op: &'static str,
    pub(super) site: Option<Site>,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<usize>,
}

impl Tally {
    /// Counts a tensor.
    pub(super) fn add(&mut self, alike: Alike, bytes: usize) {
        let (count, total) = self.0.entry(alike).or_default();
        *count += 1;
        *total += bytes as u64;
    }

    /// What was counted.
    pub(super) fn finish(self) -> Vec<Kept> {
        let tensors = self.0.into_iter();
        let tensors = tensors.map(|(alike, (count, bytes))| Kept {
            op: alike.op.into(),
            site: alike.site,
            dtype: alike.dtype.into(),
            shape: alike.shape,
            count,
            bytes,
        });
        tensors.collect()
    }
}

impl Keeping {
    /// Remembers the tensors that a call made.
    pub(super) fn made(&mut self, op: &'static str, site: &Option<Site>, made: &[Made]) {
        self.is_told |= !made.is_empty();
        // The program keeps its batch whether there is a graph or not.
        let from_data = [Op::float_from_data, Op::int_from_data, Op::bool_from_data];
        if from_data.iter().any(|from_data| from_data.name() == op) {
            return;
        }
        for made in made {
            self.made.entry(made.memory.address()).or_insert_with(|| {
                let alike = Alike {
                    op,
                    site: site.clone(),
                    dtype: made.dtype.name(),
                    shape: made.shape.as_slice().to_vec(),
                };
                (alike, made.memory.clone())
            });
        }
    }

    /// Counts those that are still in use, and forgets the others.
    pub(super) fn count(&mut self) {
        self.made.retain(|_, (_, memory)| memory.is_held());
        for (alike, memory) in self.made.values() {
            self.kept.add(alike.clone(), memory.bytes());
        }
    }

    /// What was counted; `None` if the backend cannot tell.
    pub(super) fn finish(self) -> Option<Vec<Kept>> {
        self.is_told.then(|| self.kept.finish())
    }
}
