//! The configuration: `amp.toml`, the `BURN_AMP_*` variables and the values they take.
//!
//! * `keys`: the table of keys, one row each
//! * `gradients`, `health`, `loss_scale`, `overflow`, `replay`, `report`, `names`: the types of the values
//! * `kinds`, `open`: how a value is read, checked and written; tables whose keys are not fixed
//! * `tree`: a TOML or JSON file as a tree whose values know their lines
//! * `load`, `sources`: finds the file, puts the sources together and remembers where each value is from
//! * `check`: the rules that concern several keys
//! * `error`: what is wrong, where, what is allowed and what was probably meant
//! * `loaded`: a configuration with the origin of each of its values

mod check;
mod error;
mod gradients;
mod health;
mod keys;
mod kinds;
mod load;
mod loaded;
mod loss_scale;
mod names;
mod open;
mod overflow;
mod replay;
mod report;
mod sources;
#[cfg(test)]
mod tests;
mod tree;

use std::{collections::BTreeMap, path::Path};

use crate::{Class, Op, ParamPattern, Policy, Precision, formats::Simulate};
use load::Draft;
use sources::Sources;

pub use error::{ConfigError, Place, Source};
pub use gradients::GradientsConfig;
pub use health::HealthConfig;
pub use keys::Key;
pub use loaded::Loaded;
pub use loss_scale::LossScaleConfig;
pub use names::{Compute, LossScaleMode, Preset, Saved};
pub use overflow::OverflowConfig;
pub use replay::ReplayConfig;
pub use report::ReportConfig;

/// The content of `amp.toml`: which op runs in which precision, and how the loss is scaled.
///
/// * Every key is optional; a key that is missing has its value of [`Config::default`].
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
    /// The recipe in which the products with weights are simulated.
    pub simulate: Simulate,
    /// What a graph keeps of the operands that its backward pass reads.
    pub saved: Saved,
    /// Classes of single ops that replace the default ones.
    pub ops: BTreeMap<Op, Class>,
    /// Classes of the ops that read the parameters whose paths match a pattern, in place of the classes of the ops.
    pub parameters: BTreeMap<ParamPattern, Class>,
    /// How the loss is scaled.
    pub loss_scale: LossScaleConfig,
    /// What becomes of finite gradients.
    pub gradients: GradientsConfig,
    /// What is said about an overflow.
    pub overflow: OverflowConfig,
    /// The step that a run writes to a file.
    pub replay: ReplayConfig,
    /// How often the health of a run is looked at.
    pub health: HealthConfig,
    /// The precision report that a run writes.
    pub report: ReportConfig,
}

impl Config {
    /// The configuration that a TOML text describes, over the defaults.
    ///
    /// `file` is only named in errors, not read.
    ///
    /// # Errors
    ///
    /// The first mistake: its line and key, and what is allowed there.
    pub fn from_toml(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut draft = Draft::default();
        draft.file(&tree::toml(text, file)?, file)?;
        draft.finish()
    }

    /// The configuration that a JSON text with the keys of `amp.toml` describes, over the defaults.
    ///
    /// `file` is only named in errors, not read.
    ///
    /// # Errors
    ///
    /// The same as those of [`Config::from_toml`]; only syntax errors name a line.
    pub fn from_json(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let mut draft = Draft::default();
        draft.file(&tree::json(text, file)?, file)?;
        draft.finish()
    }

    /// The policy of this configuration on a device that computes in `compute`.
    ///
    /// `compute` is what the key of this name says, or what a device chose for `auto`.
    pub fn policy(&self, compute: Precision) -> Policy {
        match self.preset {
            Preset::O0 | Preset::O1 | Preset::O2 => Policy::new(compute, &self.ops),
            Preset::O3 => Policy::all_low(compute, &self.ops),
        }
    }

    /// Checks a configuration that was made in code; one that was read is checked already.
    ///
    /// * Every value is one that its key takes in a file, see [`Key::allowed`], and a class applies to every op in `ops`.
    /// * `compute` suits `preset`: `o0` computes in F32, `o2` and `o3` in BF16 or F16.
    /// * `simulate` has products that `compute` lowers, and `saved = "8bit"` operands.
    /// * `min <= init <= max`, unless the mode says that the scale does not move.
    ///
    /// # Errors
    ///
    /// The first mistake, with `code` in place of a file.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check::config(self, &Sources::default())
    }
}
