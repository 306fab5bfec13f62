//! Where the values of a configuration were read from.

use std::collections::BTreeMap;

use super::{Place, Source};

/// Where the value of each key was read from; a key that is missing has its default or was set in code.
#[derive(Default)]
pub(super) struct Sources(BTreeMap<&'static str, Source>);

impl Sources {
    /// Notes where the value of a key was read from.
    pub(super) fn insert(&mut self, key: &'static str, source: Source) {
        self.0.insert(key, source);
    }

    /// The place of the one of two keys that was set last, or of `first` if both were set together.
    pub(super) fn last(&self, first: &str, second: &str) -> Place {
        let place = |path| {
            let source = self.0.get(path).cloned().unwrap_or(Source::Code);
            Place::new(source, path)
        };
        let rank = |place: &Place| match place.source {
            Source::Code => 0,
            Source::File { .. } => 1,
            Source::Variable(_) | Source::Environment => 2,
        };
        let (first, second) = (place(first), place(second));
        if rank(&second) > rank(&first) {
            second
        } else {
            first
        }
    }
}
