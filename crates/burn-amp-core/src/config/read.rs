//! One value of a file or a variable, as what its key holds.

use std::{collections::BTreeSet, str::FromStr};

use super::{
    ConfigError, Place, Source,
    document::{Table, Value},
    nearest::nearest,
    number::{self, Powers},
};

/// The value that a name stands for; an error recommends `allowed`.
pub(super) fn name<T: FromStr>(
    value: &Value,
    what: &'static str,
    allowed: &[&'static str],
    place: impl FnOnce() -> Box<Place>,
) -> Result<T, ConfigError> {
    let Some(text) = value.as_name() else {
        return Err(ConfigError::Unexpected {
            place: place(),
            expected: "a string",
            found: value.found(),
        });
    };
    text.parse().map_err(|_| ConfigError::UnknownName {
        place: place(),
        what,
        found: text.into(),
        allowed: allowed.into(),
        nearest: nearest(text, allowed.iter().copied()),
    })
}

/// A number that is one of `powers`.
pub(super) fn power_of_two(
    value: &Value,
    powers: &Powers,
    place: impl FnOnce() -> Box<Place>,
) -> Result<f32, ConfigError> {
    match value.as_number() {
        Some(x) => number::power_of_two(x, powers, place),
        None => Err(ConfigError::Unexpected {
            place: place(),
            expected: powers.expected,
            found: value.found(),
        }),
    }
}

/// A number of steps.
pub(super) fn count(value: &Value, place: impl FnOnce() -> Box<Place>) -> Result<u32, ConfigError> {
    match value.as_whole() {
        Some(n) => number::count(n, place),
        None => Err(ConfigError::Unexpected {
            place: place(),
            expected: number::COUNT,
            found: value.found(),
        }),
    }
}

/// A truth value.
pub(super) fn boolean(
    value: &Value,
    place: impl FnOnce() -> Box<Place>,
) -> Result<bool, ConfigError> {
    value.as_boolean().ok_or_else(|| ConfigError::Unexpected {
        place: place(),
        expected: "true or false",
        found: value.found(),
    })
}

/// The entries of a table.
pub(super) fn table<'a>(
    value: &'a Value,
    key: &str,
    source: Source,
) -> Result<&'a Table, ConfigError> {
    match value {
        Value::Table(table) => Ok(table),
        Value::String(_)
        | Value::Text(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Other(_) => Err(ConfigError::Unexpected {
            place: Place::new(source, key),
            expected: "a table",
            found: value.found(),
        }),
    }
}

/// Refuses a table that has a key twice; `at` makes the source from a line.
pub(super) fn no_duplicates(
    table: &Table,
    path: &str,
    at: impl Fn(Option<usize>) -> Source,
) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match table.iter().find(|entry| !seen.insert(&entry.key)) {
        None => Ok(()),
        Some(entry) => Err(ConfigError::Duplicate {
            place: Place::new(at(entry.line), path),
            key: entry.key.clone(),
        }),
    }
}

/// The error for a key that the table at `path` does not have.
pub(super) fn unknown_key(
    key: &str,
    path: &str,
    allowed: &'static [&'static str],
    source: Source,
) -> ConfigError {
    ConfigError::UnknownKey {
        place: Place::new(source, path),
        key: key.into(),
        allowed,
        nearest: nearest(key, allowed.iter().copied()),
    }
}
