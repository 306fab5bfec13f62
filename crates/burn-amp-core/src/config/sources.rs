//! Where the values of a configuration were read from.

use std::collections::BTreeMap;

use super::{Key, Place, Source, tree::Value};

/// Where the value of each key was read from; a key that is missing has its default or was set in code.
///
/// The keys of a table whose keys are not fixed have their own entries: `ops.float_exp`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Notes where the value of a key was read from.
    pub(super) fn insert_value(&mut self, key: &Key, value: &Value, place: Place) {
        match value {
            Value::Table(table) => {
                for entry in table {
                    let place = place.at(entry.line).child(&entry.key);
                    self.0.insert(place.key, place.source);
                }
            }
            Value::Text(list) if key.is_table() => {
                let names = list.split(',').filter_map(|item| item.split('=').next());
                for name in names.map(str::trim).filter(|name| !name.is_empty()) {
                    let place = place.clone().child(name);
                    self.0.insert(place.key, place.source);
                }
            }
            Value::String(_)
            | Value::Text(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Written(..)
            | Value::Boolean(_)
            | Value::Other(_) => {}
        }
        self.0.insert(key.path().to_owned(), place.source);
    }

    /// Where the value of a path was read from, unless it is the default.
    pub(super) fn get(&self, path: &str) -> Option<&Source> {
        self.0.get(path)
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
