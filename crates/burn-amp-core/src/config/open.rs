//! Tables whose keys are not fixed, for example `[ops]`.

use std::{collections::BTreeMap, marker::PhantomData};

use super::{
    ConfigError, Place,
    kinds::Kind,
    tree::{Entry, Value, no_duplicates},
};
use crate::{Op, ParamPattern, Precision, nearest::nearest};

/// A table whose keys are not fixed. In an environment variable it is a list: `float_exp=full,softmax=keep`.
///
/// A stronger source overrides single keys of a weaker one, not the whole table.
pub(super) struct Open<K, V> {
    example: &'static str,
    values: V,
    keys: PhantomData<K>,
}

/// A table of `values` by keys `K`; errors show the list in `example`.
pub(super) const fn open<K, V>(example: &'static str, values: V) -> Open<K, V> {
    Open {
        example,
        values,
        keys: PhantomData,
    }
}

/// A key of an [`Open`] table.
pub(super) trait OpenKey: Ord + ToString {
    /// Reads a key and checks it; `place` is that of the table.
    fn read(key: &str, place: &Place) -> Result<Self, ConfigError>
    where
        Self: Sized;
}

impl<K: OpenKey, V: Kind> Kind for Open<K, V> {
    type Field = BTreeMap<K, V::Field>;

    fn allowed(&self) -> String {
        self.values.allowed()
    }

    fn names(&self) -> &'static [(&'static str, &'static str)] {
        self.values.names()
    }

    fn read(&self, value: &Value, place: &Place) -> Result<Self::Field, ConfigError> {
        let listed;
        let table = match value {
            Value::Table(table) => table,
            Value::Text(text) => {
                listed = self.entries(text, place)?;
                &listed
            }
            other => return Err(ConfigError::unexpected(place.clone(), "a table", other)),
        };
        no_duplicates(table, place)?;
        let read = |entry: &Entry| {
            let place = place.at(entry.line);
            let key = K::read(&entry.key, &place)?;
            let value = self.values.read(&entry.value, &place.child(&entry.key))?;
            Ok((key, value))
        };
        table.iter().map(read).collect()
    }

    fn write(&self, field: &Self::Field) -> Value {
        let entry = |(key, value): (&K, &V::Field)| Entry {
            key: key.to_string(),
            value: self.values.write(value),
            line: None,
        };
        Value::Table(field.iter().map(entry).collect())
    }

    fn merge(
        &self,
        field: &mut Self::Field,
        value: &Value,
        place: &Place,
    ) -> Result<(), ConfigError> {
        field.extend(self.read(value, place)?);
        Ok(())
    }
}

impl<K, V> Open<K, V> {
    /// The entries of a list in an environment variable.
    fn entries(&self, list: &str, place: &Place) -> Result<Vec<Entry>, ConfigError> {
        let items = list
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let entry = |item: &str| match item.split_once('=') {
            Some((key, value)) => Ok(Entry {
                key: key.trim().into(),
                value: Value::Text(value.trim().into()),
                line: None,
            }),
            None => Err(ConfigError::unexpected(
                place.clone(),
                format!("a list like `{}`", self.example),
                Value::Text(item.into()),
            )),
        };
        items.map(entry).collect()
    }
}

impl OpenKey for ParamPattern {
    fn read(pattern: &str, place: &Place) -> Result<Self, ConfigError> {
        Self::new(pattern).ok_or_else(|| ConfigError::Unexpected {
            place: Box::new(place.clone()),
            expected: "a pattern of parameter names such as `head.*`, without spaces, `=` and `,`"
                .into(),
            found: format!("`{pattern}`"),
            nearest: None,
        })
    }
}

impl OpenKey for Op {
    fn read(name: &str, place: &Place) -> Result<Self, ConfigError> {
        let low = [Precision::F16, Precision::BF16];
        let has_class = |op: &Self| low.into_iter().any(|compute| op.class(compute).is_some());
        match name.parse() {
            Ok(op) if has_class(&op) => Ok(op),
            Ok(op) => Err(ConfigError::NoClass {
                place: Box::new(place.clone()),
                op,
            }),
            Err(()) => {
                let names = || {
                    Self::ALL
                        .iter()
                        .filter(|op| has_class(op))
                        .map(|op| op.name())
                };
                let nearest = nearest(name, names());
                let examples = containing(name, names()).unwrap_or_else(|| {
                    "the methods of Burn's op traits, for example `float_matmul`; `burn-amp ops` lists them".into()
                });
                Err(ConfigError::Unknown {
                    place: Box::new(place.clone()),
                    what: "op",
                    name: name.into(),
                    allowed: if nearest.is_none() {
                        examples
                    } else {
                        String::new()
                    },
                    nearest: nearest.map(str::to_owned),
                })
            }
        }
    }
}

/// The ops whose names contain a word, the shortest ones as a list; `None` if there are none.
fn containing<'a>(word: &str, ops: impl Iterator<Item = &'a str>) -> Option<String> {
    const SHOWN: usize = 6;

    let mut found: Vec<_> = ops.filter(|op| op.contains(word)).collect();
    found.sort_by_key(|op| (op.len(), *op));
    let shown = found[..found.len().min(SHOWN)].join(", ");
    match found.len() {
        0 => None,
        _ if word.is_empty() => None,
        1..=SHOWN => Some(shown),
        _ => Some(format!("{shown}, … (`burn-amp ops {word}`)")),
    }
}
