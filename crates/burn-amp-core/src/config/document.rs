//! A file as a tree whose values know their lines; TOML and JSON are read from it by the same code.

use std::path::PathBuf;

use super::Found;

/// A parsed file.
pub(super) struct Document {
    pub(super) file: PathBuf,
    pub(super) root: Table,
}

/// Keys with their values, in the order of the parser, duplicates included.
pub(super) type Table = Vec<Entry>;

/// A key and its value.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Value,
    /// Where the key stands, counted from 1, if the parser says it.
    pub(super) line: Option<usize>,
}

/// A value of a file or a variable.
pub(super) enum Value {
    Table(Table),
    String(String),
    /// The text of a variable, which may stand for a name or a number.
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    /// What no key holds: `an array`, `a date`, `null`.
    Other(&'static str),
}

impl Value {
    /// The name that stands here.
    pub(super) fn as_name(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Text(text) => Some(text),
            Self::Table(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Boolean(_)
            | Self::Other(_) => None,
        }
    }

    /// The number that stands here, whole or not.
    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(x) => Some(*x as f64),
            Self::Float(x) => Some(*x),
            Self::Text(text) => text.parse().ok(),
            Self::Table(_) | Self::String(_) | Self::Boolean(_) | Self::Other(_) => None,
        }
    }

    /// The whole number that stands here; `2000.0` is none.
    pub(super) fn as_whole(&self) -> Option<i128> {
        match self {
            Self::Integer(x) => Some(*x),
            Self::Text(text) => text.parse().ok(),
            Self::Table(_)
            | Self::String(_)
            | Self::Float(_)
            | Self::Boolean(_)
            | Self::Other(_) => None,
        }
    }

    /// The truth value that stands here.
    pub(super) fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(x) => Some(*x),
            Self::Text(text) => text.parse().ok(),
            Self::Table(_)
            | Self::String(_)
            | Self::Integer(_)
            | Self::Float(_)
            | Self::Other(_) => None,
        }
    }

    /// What an error says that it found.
    pub(super) fn found(&self) -> Found {
        match self {
            Self::Table(_) => Found::Kind("a table"),
            Self::String(_) => Found::Kind("a string"),
            Self::Text(text) => Found::Text(text.clone()),
            Self::Integer(x) => Found::Whole(*x),
            Self::Float(x) => Found::Number(*x),
            Self::Boolean(_) => Found::Kind("a boolean"),
            Self::Other(kind) => Found::Kind(kind),
        }
    }
}
