//! A file as a tree whose values know their lines; TOML and JSON give the same tree.

use std::{collections::BTreeSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::de::{DeTable, DeValue};

use super::{ConfigError, Place, Source};

/// Keys with their values in the order of the file, duplicates included.
pub(super) type Table = Vec<Entry>;

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Value,
    /// The line of the key, counted from 1; JSON has none.
    pub(super) line: Option<usize>,
}

/// A value of a file, a variable or a configuration.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Table(Table),
    String(String),
    /// The text of a variable, which may stand for a name, a number or a list.
    Text(String),
    Integer(i128),
    Float(f64),
    /// A number with a point or an exponent, and how the file writes it.
    Written(f64, String),
    Boolean(bool),
    /// A value that no key takes: `an array`, `a date`, `null`.
    Other(&'static str),
}

/// Parses TOML; `file` is named in errors.
pub(super) fn toml(text: &str, file: &Path) -> Result<Table, ConfigError> {
    match DeTable::parse(text) {
        Ok(root) => Ok(toml_table(root.into_inner(), text)),
        Err(error) => {
            let line = error.span().map(|span| line(text, span.start));
            let message = line
                .and_then(|line| unquoted(text.lines().nth(line - 1)?))
                .unwrap_or_else(|| error.message().into());
            Err(syntax(file, line, message))
        }
    }
}

/// What is wrong with a line like `compute = f16`, for which the parser expects a boolean or a number.
fn unquoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next()?.trim();
    let is_word = !value.is_empty()
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-^".contains(c));
    let is_number = value.parse::<f64>().is_ok();
    let is_value = is_number || value == "true" || value == "false";
    (is_word && !is_value).then(|| format!("`{value}` needs quotes: {} = \"{value}\"", key.trim()))
}

/// Parses JSON; `file` is named in errors.
pub(super) fn json(text: &str, file: &Path) -> Result<Table, ConfigError> {
    match serde_json::from_str(text) {
        Ok(Value::Table(root)) => Ok(root),
        Ok(other) => Err(syntax(
            file,
            Some(1),
            format!("expected an object, found {other}"),
        )),
        Err(error) => {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default(); // the place has the line
            Err(syntax(file, Some(error.line()), message.into()))
        }
    }
}

/// Refuses a table that has a key twice.
pub(super) fn no_duplicates(table: &Table, place: &Place) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    match table.iter().find(|entry| !seen.insert(&entry.key)) {
        None => Ok(()),
        Some(entry) => Err(ConfigError::Duplicate {
            place: Box::new(place.at(entry.line)),
            key: entry.key.clone(),
        }),
    }
}

impl Value {
    /// The value in TOML's syntax.
    pub(super) fn to_toml(&self) -> String {
        match self {
            Self::Table(table) if table.is_empty() => "{}".into(),
            Self::Table(table) => {
                let entries = table.iter().map(Entry::to_toml);
                format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
            }
            Self::String(text) | Self::Text(text) => quoted(text),
            Self::Integer(x) => x.to_string(),
            Self::Float(x) | Self::Written(x, _) => digits(*x),
            Self::Boolean(x) => x.to_string(),
            Self::Other(kind) => quoted(kind), // no key has such a value
        }
    }
}

impl Entry {
    /// The key and its value in TOML's syntax.
    pub(super) fn to_toml(&self) -> String {
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let key = if !self.key.is_empty() && self.key.chars().all(bare) {
            self.key.clone()
        } else {
            quoted(&self.key)
        };
        format!("{key} = {}", self.value.to_toml())
    }
}

impl fmt::Display for Value {
    /// Writes what an error says that it found.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(_) => f.write_str("a table"),
            Self::String(_) => f.write_str("a string"),
            Self::Text(text) => write!(f, "`{text}`"),
            Self::Integer(x) => write!(f, "{x}"),
            Self::Float(x) => {
                let digits = digits(*x);
                f.write_str(digits.strip_suffix(".0").unwrap_or(&digits))
            }
            Self::Written(_, text) => f.write_str(text),
            Self::Boolean(_) => f.write_str("a boolean"),
            Self::Other(kind) => f.write_str(kind),
        }
    }
}

/// A number with a point or an exponent, and no more digits than F32 needs if it is one; whole numbers that are not very
/// large have all their digits.
fn digits(x: f64) -> String {
    let short = x as f32;
    let is_whole = x.fract() == 0.0 && x.abs() < 1e16;
    if f64::from(short) == x && !is_whole {
        format!("{short:?}")
    } else {
        format!("{x:?}")
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn syntax(file: &Path, line: Option<usize>, message: String) -> ConfigError {
    let source = Source::File {
        file: file.into(),
        line,
    };
    ConfigError::Syntax {
        place: Box::new(Place::new(source, "")),
        message,
    }
}

fn toml_table(table: DeTable<'_>, text: &str) -> Table {
    let mut entries: Table = table
        .into_iter()
        .map(|(key, node)| Entry {
            line: Some(line(text, key.span().start)),
            key: key.into_inner().into_owned(),
            value: toml_value(node.into_inner(), text),
        })
        .collect();
    // the parser sorts by name, but of two errors the first in the file is the one to report
    entries.sort_by_key(|entry| entry.line);
    entries
}

fn toml_value(node: DeValue<'_>, text: &str) -> Value {
    match node {
        DeValue::Table(inner) => Value::Table(toml_table(inner, text)),
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(x) => match i128::from_str_radix(x.as_str(), x.radix()) {
            Ok(x) => Value::Integer(x),
            Err(_) => Value::Other("a number of more than 128 bits"),
        },
        DeValue::Float(x) => {
            let text = x.as_str();
            Value::Written(text.parse().unwrap_or(f64::NAN), text.to_owned())
        }
        DeValue::Boolean(x) => Value::Boolean(x),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(_) => Value::Other("an array"),
    }
}

/// The line of a byte, counted from 1.
fn line(text: &str, byte: usize) -> usize {
    let before = &text.as_bytes()[..byte.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Json)
    }
}

/// Reads JSON and keeps duplicate keys, which `serde_json::Value` would drop.
struct Json;

impl<'de> Visitor<'de> for Json {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut table = Table::new();
        while let Some((key, value)) = map.next_entry()? {
            table.push(Entry {
                key,
                value,
                line: None,
            });
        }
        Ok(Value::Table(table))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<Value>()?.is_some() {}
        Ok(Value::Other("an array"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Value, E> {
        Ok(Value::Integer(x.into()))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Value, E> {
        Ok(Value::Integer(x.into()))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(Value::Float(x))
    }

    fn visit_bool<E>(self, x: bool) -> Result<Value, E> {
        Ok(Value::Boolean(x))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other("null"))
    }
}
