//! TOML as a [`Document`].

use std::{ops::Range, path::Path};

use toml::de::{DeTable, DeValue};

use super::{
    ConfigError, Place, Source,
    document::{Document, Entry, Table, Value},
};

/// Parses TOML; duplicate keys are syntax errors.
pub(super) fn parse(text: &str, file: &Path) -> Result<Document, ConfigError> {
    let root = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        place: Place::new(
            Source::File {
                file: file.into(),
                line: error.span().map(|span| line(text, &span)),
            },
            "",
        ),
        message: error.message().into(),
    })?;
    Ok(Document {
        file: file.into(),
        root: table(root.into_inner(), text),
    })
}

fn table(table: DeTable<'_>, text: &str) -> Table {
    let mut entries: Table = table
        .into_iter()
        .map(|(key, node)| Entry {
            line: Some(line(text, &key.span())),
            key: key.into_inner().into_owned(),
            value: value(node.into_inner(), text),
        })
        .collect();
    // the parser sorts by name; of two errors the first in the file is to be told
    entries.sort_by_key(|entry| entry.line);
    entries
}

fn value(node: DeValue<'_>, text: &str) -> Value {
    match node {
        DeValue::Table(inner) => Value::Table(table(inner, text)),
        DeValue::String(name) => Value::String(name.into_owned()),
        DeValue::Integer(x) => match i128::from_str_radix(x.as_str(), x.radix()) {
            Ok(x) => Value::Integer(x),
            Err(_) => Value::Other("a number beyond all bounds"),
        },
        DeValue::Float(x) => Value::Float(x.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(x) => Value::Boolean(x),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(_) => Value::Other("an array"),
    }
}

/// The line in which `span` begins, counted from 1.
fn line(text: &str, span: &Range<usize>) -> usize {
    let before = &text.as_bytes()[..span.start.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
