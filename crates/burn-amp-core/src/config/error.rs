//! What can be wrong with a configuration.

use std::{io, path::PathBuf};

use super::{Compute, Found, Place, Preset};
use crate::Op;

/// What is wrong with a configuration, and where.
///
/// Where a message is of one value, it begins with the [`Place`] of it, and says what is allowed there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file that `BURN_AMP_CONFIG` names is not there.
    #[error("{variable}: there is no file {}", .file.display())]
    NoFile {
        /// The variable that names the file.
        variable: &'static str,
        /// The file.
        file: PathBuf,
    },

    /// The file is there and is not readable as UTF-8 text.
    #[error("{}: not readable as UTF-8 text", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What reading it said.
        #[source]
        source: io::Error,
    },

    /// A folder holds two files, and nothing says which of them counts.
    #[error(
        "{}: {} stands beside it; keep one of them, or name one in BURN_AMP_CONFIG",
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
        /// Where.
        place: Box<Place>,
        /// What the parser said.
        message: String,
    },

    /// A key stands there twice.
    #[error("{place}: `{key}` is set twice")]
    Duplicate {
        /// The table or variable that has it.
        place: Box<Place>,
        /// The key or op.
        key: String,
    },

    /// There is no such key.
    #[error("{place}: unknown key `{key}`; allowed: {}{}", list(.allowed), hint(*.nearest))]
    UnknownKey {
        /// The table.
        place: Box<Place>,
        /// The key.
        key: String,
        /// The keys of this table.
        allowed: &'static [&'static str],
        /// The key that was probably meant.
        nearest: Option<&'static str>,
    },

    /// There is no such variable.
    #[error("{variable}: unknown variable; allowed: {}{}", list(.allowed), hint(.nearest.as_deref()))]
    UnknownVariable {
        /// The variable.
        variable: String,
        /// Every variable that is read.
        allowed: Vec<String>,
        /// The variable that was probably meant.
        nearest: Option<String>,
    },

    /// A variable with overrides has an item that is no override.
    #[error("{place}: expected overrides like `float_exp=full,softmax=keep`, found `{found}`")]
    NoOverride {
        /// The variable.
        place: Box<Place>,
        /// The item.
        found: String,
    },

    /// There is no such op.
    #[error("{place}: unknown op `{op}`{}", op_hint(*.nearest))]
    UnknownOp {
        /// The table or variable.
        place: Box<Place>,
        /// The op.
        op: String,
        /// The op that was probably meant.
        nearest: Option<&'static str>,
    },

    /// There is such an op, and a class has no meaning for it.
    #[error(
        "{place}: no class applies to `{op}`: it does no float arithmetic, or names its dtype itself"
    )]
    NoClass {
        /// The table or variable.
        place: Box<Place>,
        /// The op.
        op: Op,
    },

    /// A value that is written as a name has one that does not exist.
    #[error("{place}: unknown {what} `{found}`; allowed: {}{}", list(.allowed), hint(*.nearest))]
    UnknownName {
        /// Where.
        place: Box<Place>,
        /// What is named: `preset`, `compute dtype`, `class`, `mode`.
        what: &'static str,
        /// The name that stands there.
        found: String,
        /// The names there are.
        allowed: Vec<&'static str>,
        /// The name that was probably meant.
        nearest: Option<&'static str>,
    },

    /// A value has the wrong type or is out of range.
    #[error("{place}: expected {expected}, found {found}")]
    Unexpected {
        /// Where.
        place: Box<Place>,
        /// What is allowed.
        expected: &'static str,
        /// What stands there.
        found: Found,
    },

    /// A scale or factor would round, because it is not a power of two.
    #[error("{place}: {} is not a power of two; the nearest is {}", Found::Number(*.found), short(.nearest))]
    NotPowerOfTwo {
        /// Where.
        place: Box<Place>,
        /// What stands there.
        found: f64,
        /// The nearest power of two that is allowed there.
        nearest: f32,
    },

    /// `min <= init <= max` does not hold.
    #[error(
        "{place}: expected loss_scale.min <= loss_scale.init <= loss_scale.max, found {} <= {} <= {}",
        short(.min),
        short(.init),
        short(.max)
    )]
    Disorder {
        /// Where the value stands that was set last.
        place: Box<Place>,
        /// The smallest scale.
        min: f32,
        /// The first scale.
        init: f32,
        /// The largest scale.
        max: f32,
    },

    /// A preset and a compute dtype that exclude each other: `o0` with a low one, `o2` or `o3` with F32.
    #[error("{place}: compute `{compute}` contradicts preset `{preset}`; allowed with it: {}", list(.allowed))]
    Contradiction {
        /// Where the value stands that was set last.
        place: Box<Place>,
        /// The preset.
        preset: Preset,
        /// The compute dtype.
        compute: Compute,
        /// The compute dtypes that the preset allows.
        allowed: &'static [&'static str],
    },
}

fn short(x: &f32) -> Found {
    Found::Number(f64::from(*x))
}

fn list<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    names.join(", ")
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

fn op_hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(_) => hint(nearest),
        None => "; allowed: the methods of Burn's op traits, for example `float_matmul`".into(),
    }
}
