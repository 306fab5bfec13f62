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
    kept: HashMap<Alike, (u64, u64)>,
    /// Whether the backend has weak references to memory.
    is_told: bool,
}

/// What tensors have in common that are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Alike {
    op: &'static str,
    site: Option<Site>,
    dtype: &'static str,
    shape: Vec<usize>,
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
            let (count, bytes) = self.kept.entry(alike.clone()).or_default();
            *count += 1;
            *bytes += memory.bytes() as u64;
        }
    }

    /// What was counted; `None` if the backend cannot tell.
    pub(super) fn finish(self) -> Option<Vec<Kept>> {
        let kept = self.kept.into_iter();
        let kept = kept.map(|(alike, (count, bytes))| Kept {
            op: alike.op.into(),
            site: alike.site,
            dtype: alike.dtype.into(),
            shape: alike.shape,
            count,
            bytes,
        });
        self.is_told.then(|| kept.collect())
    }
}
