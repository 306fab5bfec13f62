//! JSON as a [`Document`].

use std::{fmt, path::Path};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{
    ConfigError, Place, Source,
    document::{Document, Entry, Table, Value},
};

/// Parses JSON; the document keeps duplicate keys and has no lines.
pub(super) fn parse(text: &str, file: &Path) -> Result<Document, ConfigError> {
    let syntax = |line, message| ConfigError::Syntax {
        place: Place::new(
            Source::File {
                file: file.into(),
                line,
            },
            "",
        ),
        message,
    };
    let root: Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default(); // the place says it
        syntax(Some(error.line()), message.into())
    })?;
    match root {
        Value::Table(root) => Ok(Document {
            file: file.into(),
            root,
        }),
        other => Err(syntax(
            Some(1),
            format!("expected an object, found {}", other.found()),
        )),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
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
