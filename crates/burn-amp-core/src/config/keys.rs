//! The table of keys: one row has everything that is known about a key.
//!
//! A new key touches three files:
//!
//! 1. this one, for its row: path, field, allowed values, comment;
//! 2. the file of the struct that has the field, for the field and its default;
//! 3. the code that uses it. A rule that concerns other keys, too, goes to `check.rs`.
//!
//! The rest follows from the row: the environment variable, reading and checking, error messages, [`Config::validate`],
//! the printed configuration, and by `cargo xtask config` the `amp.toml` of the repository and `book/src/configuration.md`.
//! The tests of messages and of variables assert the lists of names to the letter, so they ask for the new name.

use std::fmt;

use super::{
    Compute, Config, ConfigError, LossScaleMode, Place, Preset, Saved, Source,
    kinds::{FilePath, Flag, Kind, Power, Whole, name},
    open::open,
    tree::Value,
};
use crate::{Class, Op, ParamPattern, formats::Simulate, overflow::Locate};

/// The prefix of every environment variable.
pub(super) const PREFIX: &str = "BURN_AMP_";

/// The variable that names the file.
pub(super) const FILE_VARIABLE: &str = "BURN_AMP_CONFIG";

/// Makes [`Key::ALL`] of rows `path => field: kind, comment;`.
///
/// A macro, because a function cannot take the name of a field in order to read and to write it.
macro_rules! keys {
    ($($path:literal => $($field:ident).+: $kind:expr, $comment:literal;)+) => {
        impl Key {
            /// Every key, in the order of the printed configuration.
            pub const ALL: &'static [Self] = &[$(Self {
                path: $path,
                comment: $comment,
                allowed: || $kind.allowed(),
                names: || $kind.names(),
                get: |config| $kind.write(&config.$($field).+),
                set: |config, value, place| $kind.merge(&mut config.$($field).+, value, place),
            }),+];
        }
    };
}

keys! {
    "preset" => preset: name::<Preset>("preset"),
        "o1 is autocast; o0 turns it off, o2 and o3 also store parameters low";
    "compute" => compute: name::<Compute>("compute dtype"),
        "auto is bf16 or f16, the first that the device accelerates, else f32";
    "simulate" => simulate: name::<Simulate>("recipe"),
        "products with weights simulate this recipe";
    "saved" => saved: name::<Saved>("form"),
        "what the backward pass reads is kept whole, or in 8 bits per element: less memory";
    "ops" => ops: open::<Op, _>("float_exp=full,softmax=keep", name::<Class>("class")),
        "classes of ops, for example float_exp = \"keep\"; names: `burn-amp ops`";
    "parameters" => parameters: open::<ParamPattern, _>("head.*=full,*.norm.*=keep", name::<Class>("class")),
        "classes of ops that read a parameter, as \"head.*\" = \"full\"";
    // The loss scale and its factors are powers of two, so that scaling and unscaling are exact. A scale is normal in
    // F32, so that its reciprocal is finite; that of 2^127 is subnormal, but not zero.
    "loss_scale.mode" => loss_scale.mode: name::<LossScaleMode>("mode"),
        "auto is dynamic for f16, else off; check only skips";
    "loss_scale.init" => loss_scale.rule.init: Power(-126..=127),
        "the first scale; with search, the largest one that the search tries";
    "loss_scale.search" => loss_scale.rule.search: Flag,
        "true: start 2^12 below init and double until a step overflows; false: start at init";
    "loss_scale.growth_factor" => loss_scale.rule.growth_factor: Power(1..=127),
        "multiplies the scale after growth_interval finite steps in a row";
    "loss_scale.backoff_factor" => loss_scale.rule.backoff_factor: Power(-126..=-1),
        "multiplies the scale after an overflow";
    "loss_scale.growth_interval" => loss_scale.rule.growth_interval: Whole(1..=u32::MAX),
        "finite steps in a row before the scale grows";
    "loss_scale.hysteresis" => loss_scale.rule.hysteresis: Whole(1..=u32::MAX),
        "overflows in a row before the scale backs off";
    "loss_scale.min" => loss_scale.rule.min: Power(-126..=127),
        "the smallest scale; the default is 2^-24";
    "loss_scale.max" => loss_scale.rule.max: Power(-126..=127),
        "the largest scale";
    "loss_scale.patience" => loss_scale.rule.patience: Whole(1..=u32::MAX),
        "overflows in a row at min before training is given up";
    "loss_scale.sync" => loss_scale.sync: Flag,
        "false: the host does not wait for the finite check; needs an AmpOptimizer";
    "loss_scale.max_skips" => loss_scale.max_skips: Whole(0..=u32::MAX),
        "overflows in a row, at any scale, before training is given up; 0 is no limit";
    "gradients.max_norm_ratio" => gradients.max_norm_ratio: Whole(0..=u32::MAX),
        "skip a step whose norm exceeds this many recent medians; 0 never skips; needs an AmpOptimizer";
    "overflow.locate" => overflow.locate: name::<Locate>("mode"),
        "when to look for the first op that made inf or NaN";
    "replay.output" => replay.output: FilePath { is_optional: true },
        "write a step to this file, for `burn-amp replay`; \"\" is none";
    "replay.step" => replay.step: Whole(0..=u32::MAX),
        "the backward pass whose step is written; 0: one that overflows";
    "replay.with_values" => replay.with_values: Flag,
        "false: write shapes and hashes of tensors, but no values";
    "health.every" => health.every: Whole(0..=u32::MAX),
        "look at gradients and updates in every so many steps of an AmpOptimizer; 0 never";
    "report.steps" => report.steps: Whole(0..=u32::MAX),
        "steps that the precision report covers, after the first one; 0 makes no report";
    "report.output" => report.output: FilePath { is_optional: false },
        "write the report to this name with .json, .html and .txt";
    "report.samples" => report.samples: Flag,
        "true: sample the casts, and report how many values overflow or become 0";
}

/// A key of the configuration: its path, its variable, the values it takes, its default and its meaning.
pub struct Key {
    path: &'static str,
    comment: &'static str,
    allowed: fn() -> String,
    names: fn() -> &'static [(&'static str, &'static str)],
    get: fn(&Config) -> Value,
    set: fn(&mut Config, &Value, &Place) -> Result<(), ConfigError>,
}

impl Key {
    /// The path in a file: `loss_scale.init`.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The environment variable: `BURN_AMP_LOSS_SCALE_INIT`.
    pub fn variable(&self) -> String {
        PREFIX.to_owned() + &self.path.to_uppercase().replace('.', "_")
    }

    /// The values that are allowed, in words.
    pub fn allowed(&self) -> String {
        (self.allowed)()
    }

    /// The names that are allowed with the meaning of each; empty if the key does not take names.
    pub fn names(&self) -> &'static [(&'static str, &'static str)] {
        (self.names)()
    }

    /// The default in TOML's syntax; `{}` for a table whose keys are not fixed.
    pub fn default(&self) -> String {
        self.value(&Config::default())
    }

    /// The meaning of the key, in a few words.
    pub fn comment(&self) -> &'static str {
        self.comment
    }

    /// The key of a path: `loss_scale.init`.
    pub fn find(path: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|key| key.path == path)
    }

    /// The keys and tables inside a table, each once; the path of the file itself is empty.
    pub(super) fn inside(table: &str) -> Vec<&'static str> {
        let names = Self::ALL.iter().filter_map(|key| {
            let rest = key.path.strip_prefix(table)?;
            let rest = if table.is_empty() {
                rest
            } else {
                rest.strip_prefix('.')?
            };
            rest.split('.').next()
        });
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names
    }

    /// The table that has the key, and the key's name in it.
    pub(super) fn table_and_name(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// The value in a configuration, in TOML's syntax.
    pub fn value(&self, config: &Config) -> String {
        self.get(config).to_toml()
    }

    /// Whether the key is a table whose keys are not fixed, such as `ops`.
    pub fn is_table(&self) -> bool {
        matches!(self.get(&Config::default()), Value::Table(_))
    }

    /// The value in a configuration.
    pub(super) fn get(&self, config: &Config) -> Value {
        (self.get)(config)
    }

    /// Checks a value and puts it over the one in a configuration.
    pub(super) fn set(
        &self,
        config: &mut Config,
        value: &Value,
        place: &Place,
    ) -> Result<(), ConfigError> {
        (self.set)(config, value, place)
    }

    /// Checks the value in a configuration that was made in code.
    pub(super) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        let place = Place::new(Source::Code, self.path);
        self.set(&mut config.clone(), &self.get(config), &place)
    }
}

/// The number of names that a comment lists.
const MOST_NAMES: usize = 5;

impl fmt::Display for Config {
    /// Writes a complete `amp.toml` with comments; a valid configuration parses back to an equal one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = Key::ALL.iter().map(|key| (key, key.get(self))).collect();
        let line = |key: &Key, value: &Value| {
            let (_, name) = key.table_and_name();
            format!("{name} = {}", value.to_toml())
        };
        let is_table = |value: &Value| matches!(value, Value::Table(_));
        let lines = keys.iter().filter(|(_, value)| !is_table(value));
        let width = lines.map(|(key, value)| line(key, value).len()).max();
        let width = width.unwrap_or_default();

        let mut current = "";
        for (key, value) in &keys {
            let mut names: Vec<_> = key.names().iter().map(|(name, _)| *name).collect();
            if names.len() > MOST_NAMES {
                names.truncate(MOST_NAMES);
                names.push("...");
            }
            let names = names.join(" | ");
            let colon = if names.is_empty() { "" } else { ": " };
            let comment = format!("# {names}{colon}{}", key.comment);
            if let Value::Table(entries) = value {
                current = key.path;
                writeln!(f, "\n[{current}] {comment}")?;
                for entry in entries {
                    writeln!(f, "{}", entry.to_toml())?;
                }
                continue;
            }
            let (table, _) = key.table_and_name();
            if table != current {
                current = table;
                writeln!(f, "\n[{current}]")?;
            }
            writeln!(f, "{:<width$} {comment}", line(key, value))?;
        }
        Ok(())
    }
}
