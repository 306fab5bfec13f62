//! Where a value stands, and what stands there.

use std::{fmt, path::PathBuf};

/// Where a value stands: `amp.toml:3: loss_scale.init`, `BURN_AMP_LOSS_SCALE_INIT`, `code: loss_scale.init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the value was read from.
    pub source: Source,
    /// The path of the key or table in the file; empty for the file itself.
    pub key: String,
}

/// What a value was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A default, or a configuration that was made in code.
    Code,
    /// A file.
    File {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1; JSON files have it for syntax errors only.
        line: Option<usize>,
    },
    /// An environment variable.
    Variable(String),
}

/// What stands where something else is expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A value of another type: `a string`.
    Kind(&'static str),
    /// A whole number.
    Whole(i128),
    /// Another number.
    Number(f64),
    /// The text of a variable.
    Text(String),
}

impl Place {
    /// A place, boxed to keep the error small.
    pub(super) fn new(source: Source, key: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            source,
            key: key.into(),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Variable(_) => write!(f, "{}", self.source),
            Source::Code | Source::File { .. } if self.key.is_empty() => {
                write!(f, "{}", self.source)
            }
            Source::Code | Source::File { .. } => write!(f, "{}: {}", self.source, self.key),
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
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => f.write_str(kind),
            Self::Whole(x) => write!(f, "{x}"),
            Self::Number(x) => number(*x, f),
            Self::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// Writes a number with the digits that tell it from its neighbours in F32, if it is one.
fn number(x: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let short = x as f32;
    let plain = x == 0.0 || !x.is_finite() || (1e-6..1e16).contains(&x.abs());
    match (f64::from(short) == x, plain) {
        (true, true) => write!(f, "{short}"),
        (true, false) => write!(f, "{short:e}"),
        (false, true) => write!(f, "{x}"),
        (false, false) => write!(f, "{x:e}"),
    }
}
