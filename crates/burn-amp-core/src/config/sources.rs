//! Where each value was read from.

use std::collections::BTreeMap;

use super::{Place, Source, key::Key};

/// Where each value was read from; what is missing is a default or was made in code.
#[derive(Default)]
pub(super) struct Sources(BTreeMap<Key, Source>);

impl Sources {
    /// Notes what a key was read from.
    pub(super) fn insert(&mut self, key: Key, source: Source) {
        self.0.insert(key, source);
    }

    /// What a key was read from.
    pub(super) fn source(&self, key: Key) -> Source {
        self.0.get(&key).cloned().unwrap_or(Source::Code)
    }

    /// The place of a key.
    pub(super) fn place(&self, key: Key) -> Box<Place> {
        Place::new(self.source(key), key.path())
    }

    /// The place of the key that was set last, or of `first` if both were set together.
    pub(super) fn last(&self, first: Key, second: Key) -> Box<Place> {
        let rank = |key| match self.source(key) {
            Source::Code => 0,
            Source::File { .. } => 1,
            Source::Variable(_) => 2,
        };
        match rank(second) > rank(first) {
            true => self.place(second),
            false => self.place(first),
        }
    }
}
