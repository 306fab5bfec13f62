//! Errors of a configuration, and the places they name.

use std::{fmt, io, path::PathBuf};

use super::tree::Value;
use crate::{Op, nearest::nearest};

/// A mistake in a configuration and its place.
///
/// A message about a value begins with the value's [`Place`] and lists what is allowed there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file that `BURN_AMP_CONFIG` names does not exist.
    #[error("{variable}: there is no file {}", .file.display())]
    NoFile {
        /// The variable that names the file.
        variable: &'static str,
        /// The file.
        file: PathBuf,
    },

    /// The file exists, but cannot be read as UTF-8 text.
    #[error("{}: {}", .file.display(), unreadable(.reason))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of reading it, which the message contains.
        reason: io::Error,
    },

    /// A folder holds two files, and nothing says which of them counts.
    #[error(
        "{} and {} both exist; keep one of them, or name one in BURN_AMP_CONFIG",
        .toml.display(),
        .json.display()
    )]
    TwoFiles {
        /// The TOML file.
        toml: PathBuf,
        /// The JSON file.
        json: PathBuf,
    },

    /// The text is not TOML or not JSON.
    #[error("{place}: {message}")]
    Syntax {
        /// The line of the file.
        place: Box<Place>,
        /// The parser's message.
        message: String,
    },

    /// A table or variable sets a key twice.
    #[error("{place}: `{key}` is set twice")]
    Duplicate {
        /// The table or variable.
        place: Box<Place>,
        /// The key or op.
        key: String,
    },

    /// There is no key, variable, op or value of this name.
    #[error("{place}: unknown {what} `{name}`{}{}", labelled("; allowed: ", .allowed), hint(.name, .nearest.as_deref()))]
    Unknown {
        /// The table, variable or key that has the name.
        place: Box<Place>,
        /// The kind of name: `key`, `variable`, `op`, `preset`, `compute dtype`, `class` or `mode`.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// The names that are allowed, or the likely ones of hundreds; empty if they are hundreds and `nearest` is one of
        /// them.
        allowed: String,
        /// The name that was probably meant; the same name, if it belongs above the first table of the file.
        nearest: Option<String>,
    },

    /// A value has the wrong type, is out of range or contradicts another one.
    #[error("{place}: expected {expected}, found {found}{}", nearest_number(*.nearest))]
    Unexpected {
        /// The key; of several keys that contradict each other, the one that was set last.
        place: Box<Place>,
        /// The values that are allowed.
        expected: String,
        /// The value that was found.
        found: String,
        /// The nearest number that is allowed, if the one found is between two of them.
        nearest: Option<f32>,
    },

    /// The op exists, but no class has a meaning for it.
    #[error(
        "{place}: `{op}` cannot be given a class: it does no float arithmetic, or its caller chooses the dtype"
    )]
    NoClass {
        /// The table or variable.
        place: Box<Place>,
        /// The op.
        op: Op,
    },
}

/// Where a value was set: `amp.toml:3: loss_scale.init`, `BURN_AMP_LOSS_SCALE_INIT`, `code: loss_scale.init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the value was read from.
    pub source: Source,
    /// The path of the key or table; empty for the source as a whole.
    pub key: String,
}

/// A source of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A default, or a configuration made in code.
    Code,
    /// A file.
    File {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1; known for TOML, and for syntax errors of JSON.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
    /// The environment variables as a whole.
    Environment,
}

impl ConfigError {
    /// An unknown name where the list of `allowed` ones is short enough to be shown.
    pub(super) fn unknown<'a>(
        place: Place,
        what: &'static str,
        name: &str,
        allowed: impl Iterator<Item = &'a str>,
    ) -> Self {
        let allowed: Vec<_> = allowed.collect();
        Self::Unknown {
            place: Box::new(place),
            what,
            name: name.into(),
            nearest: nearest(name, allowed.iter().copied()).map(str::to_owned),
            allowed: allowed.join(", "),
        }
    }

    /// An unexpected value with no nearest one to recommend.
    pub(super) fn unexpected(
        place: Place,
        expected: impl Into<String>,
        found: impl fmt::Display,
    ) -> Self {
        Self::Unexpected {
            place: Box::new(place),
            expected: expected.into(),
            found: found.to_string(),
            nearest: None,
        }
    }
}

impl Place {
    /// The place of a key or table that was read from `source`.
    pub(super) fn new(source: Source, key: impl Into<String>) -> Self {
        Self {
            source,
            key: key.into(),
        }
    }

    /// The same key or table, at a line of the same source.
    pub(super) fn at(&self, line: Option<usize>) -> Self {
        let source = match self.source.clone() {
            Source::File { file, .. } => Source::File { file, line },
            source @ (Source::Code | Source::Variable(_) | Source::Environment) => source,
        };
        Self::new(source, self.key.clone())
    }

    /// A key of the table that this place names.
    pub(super) fn child(mut self, name: &str) -> Self {
        if !self.key.is_empty() {
            self.key.push('.');
        }
        self.key.push_str(name);
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            // the name of the variable says the key
            Source::Variable(_) => write!(f, "{}", self.source),
            Source::Code | Source::File { .. } | Source::Environment => {
                write!(f, "{}{}", self.source, labelled(": ", &self.key))
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code => f.write_str("code"),
            Self::File {
                file,
                line: Some(line),
            } => write!(f, "{}:{line}", file.display()),
            Self::File { file, line: None } => write!(f, "{}", file.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Environment => f.write_str("environment"),
        }
    }
}

/// The text after its label, or nothing if the text is empty.
fn labelled(label: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("{label}{text}")
}

/// Why a file that exists cannot be read as text.
fn unreadable(reason: &io::Error) -> String {
    match reason.kind() {
        io::ErrorKind::IsADirectory => "is a folder, not a file".into(),
        io::ErrorKind::InvalidData => "not UTF-8 text".into(),
        _ => format!("cannot be read: {reason}"),
    }
}

fn hint(name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) if nearest == name => {
            format!("; `{name}` belongs to the top of the file, above the first table")
        }
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    }
}

fn nearest_number(nearest: Option<f32>) -> String {
    nearest.map_or_else(String::new, |x| {
        format!("; the nearest is {}", Value::Float(x.into()))
    })
}
