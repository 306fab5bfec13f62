//! The configuration: `amp.toml`, the `BURN_AMP_*` variables, and what they may say.
//!
//! * `names`: the values that are written as names (`o1`, `bf16`, `dynamic`)
//! * `loss_scale`: the `[loss_scale]` table
//! * `key`: every key, its path in the file and its variable
//! * `document`, `toml`, `json`: a file as a tree whose values know their lines
//! * `read`, `number`: one value of the tree or of a variable, and its range
//! * `draft`, `sources`: files and variables put together, and where each value came from
//! * `check`: what a whole configuration must hold
//! * `load`: finds the file
//! * `display`: writes a file
//! * `error`, `place`, `nearest`: what is said when something is wrong

mod check;
mod display;
mod document;
mod draft;
mod error;
mod json;
mod key;
mod load;
mod loss_scale;
mod names;
mod nearest;
mod number;
mod place;
mod read;
mod sources;
#[cfg(test)]
mod tests;
mod toml;

use std::{collections::BTreeMap, path::Path};

use crate::{Class, Op};
use draft::Draft;
use sources::Sources;

pub use error::ConfigError;
pub use loss_scale::LossScaleConfig;
pub use names::{Compute, LossScaleMode, Preset};
pub use place::{Found, Place, Source};

/// What `amp.toml` says: which op runs in which precision, and how the loss is scaled.
///
/// * Every key is optional; [`Config::default`] has the values of the missing ones.
/// * Built-in defaults < file < `BURN_AMP_*` variables; see [`Config::load`].
/// * An unknown key, op or variable and a value out of range are errors, never ignored.
/// * Printing it with `{}` gives a complete `amp.toml` that parses back to an equal value.
///
/// ```
/// use burn_amp_core::{Class, Config, Op, Preset};
/// use std::path::Path;
///
/// let text = "[ops]\nfloat_exp = \"keep\"\n";
/// let config = Config::from_toml(text, Path::new("amp.toml"))?;
/// assert_eq!(config.preset, Preset::O1);
/// assert_eq!(config.ops[&Op::float_exp], Class::Keep);
/// assert_eq!(Config::from_toml(&config.to_string(), Path::new("amp.toml"))?, config);
///
/// let error = Config::from_toml("[ops]\nsoftmx = \"full\"\n", Path::new("amp.toml")).unwrap_err();
/// assert_eq!(error.to_string(), "amp.toml:2: ops: unknown op `softmx`; did you mean `softmax`?");
/// # Ok::<(), burn_amp_core::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// How much runs in low precision.
    pub preset: Preset,
    /// The dtype of `Low` ops.
    pub compute: Compute,
    /// Classes that replace the table's, for single ops.
    pub ops: BTreeMap<Op, Class>,
    /// How the loss is scaled.
    pub loss_scale: LossScaleConfig,
}

impl Config {
    /// The configuration that a TOML text describes, over the defaults.
    ///
    /// `file` is named in errors and not read.
    ///
    /// # Errors
    ///
    /// Names the line, the key and what is allowed there, for the first thing that is wrong.
    pub fn from_toml(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Draft::default()
            .document(toml::parse(text, file)?)?
            .finish()
    }

    /// The configuration that a JSON text with the keys of `amp.toml` describes, over the defaults.
    ///
    /// `file` is named in errors and not read.
    ///
    /// # Errors
    ///
    /// As [`Config::from_toml`], without the line where the syntax is right.
    pub fn from_json(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Draft::default()
            .document(json::parse(text, file)?)?
            .finish()
    }

    /// Checks a configuration that was made in code; those that were read are checked already.
    ///
    /// * `preset` is one that this version has, and `compute` does not contradict it.
    /// * Every op in `ops` is one that a class applies to.
    /// * `init`, `min`, `max` are powers of two from 2^-126 to 2^127, so that scaling is exact and `1/scale` finite;
    ///   `growth_factor` is one above 1, `backoff_factor` one below 1.
    /// * `growth_interval` and `hysteresis` are at least 1.
    /// * `min <= init <= max`, unless the mode says that the scale does not move.
    ///
    /// # Errors
    ///
    /// Says the first thing that is wrong, with `code` where a file would be named.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check::config(self, &Sources::default())
    }
}
