//! Puts files and variables together, the weaker first.

use std::str::FromStr;

use super::{
    Compute, Config, ConfigError, LossScaleMode, Place, Preset, Source, check,
    document::{Document, Value},
    key::{Key, LOSS_SCALE, OPS_VARIABLE, ROOT},
    nearest::nearest,
    number::{BACKOFF_FACTOR, GROWTH_FACTOR, SCALE},
    read::{boolean, count, name, no_duplicates, power_of_two, table, unknown_key},
    sources::Sources,
};
use crate::{Class, Op};

/// A configuration in the making, and where its values came from.
#[derive(Default)]
pub(super) struct Draft {
    config: Config,
    sources: Sources,
}

impl Draft {
    /// Puts what a file says over what is there.
    pub(super) fn document(mut self, document: Document) -> Result<Self, ConfigError> {
        let Document { file, root } = document;
        let at = |line| Source::File {
            file: file.clone(),
            line,
        };
        no_duplicates(&root, "", at)?;
        for entry in &root {
            let source = at(entry.line);
            match entry.key.as_str() {
                "preset" => self.set(Key::Preset, &entry.value, source)?,
                "compute" => self.set(Key::Compute, &entry.value, source)?,
                "ops" => {
                    let table = table(&entry.value, "ops", source)?;
                    no_duplicates(table, "ops", at)?;
                    for entry in table {
                        self.set_op(&entry.key, &entry.value, at(entry.line))?;
                    }
                }
                "loss_scale" => {
                    let table = table(&entry.value, "loss_scale", source)?;
                    no_duplicates(table, "loss_scale", at)?;
                    for entry in table {
                        self.set_loss_scale(&entry.key, &entry.value, at(entry.line))?;
                    }
                }
                unknown => return Err(unknown_key(unknown, "", ROOT, source)),
            }
        }
        Ok(self)
    }

    /// Puts what a variable of the environment says over what is there.
    pub(super) fn variable(mut self, key: Key, text: String) -> Result<Self, ConfigError> {
        let source = Source::Variable(key.variable());
        self.set(key, &Value::Text(text), source)?;
        Ok(self)
    }

    /// Puts the overrides of a list like `float_exp=full,softmax=keep` over those that are there.
    pub(super) fn ops_variable(mut self, text: &str) -> Result<Self, ConfigError> {
        let source = Source::Variable(OPS_VARIABLE.into());
        let place = || Place::new(source.clone(), "ops");
        let mut seen = Vec::new();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let Some((op, class)) = item.split_once('=') else {
                return Err(ConfigError::NoOverride {
                    place: place(),
                    found: item.into(),
                });
            };
            let (op, class) = (op.trim(), class.trim());
            if seen.contains(&op) {
                return Err(ConfigError::Duplicate {
                    place: place(),
                    key: op.into(),
                });
            }
            seen.push(op);
            self.set_op(op, &Value::Text(class.into()), source.clone())?;
        }
        Ok(self)
    }

    /// The configuration, checked.
    pub(super) fn finish(self) -> Result<Config, ConfigError> {
        check::config(&self.config, &self.sources)?;
        Ok(self.config)
    }

    fn set_op(&mut self, op: &str, class: &Value, source: Source) -> Result<(), ConfigError> {
        let place = || Place::new(source.clone(), "ops");
        let Ok(known) = Op::from_str(op) else {
            let candidates = Op::ALL.iter().filter(|op| check::takes_class(**op));
            return Err(ConfigError::UnknownOp {
                place: place(),
                op: op.into(),
                nearest: nearest(op, candidates.map(|op| op.name())),
            });
        };
        check::op_has_class(known, place)?;
        self.set(Key::Op(known), class, source)
    }

    fn set_loss_scale(
        &mut self,
        key: &str,
        value: &Value,
        source: Source,
    ) -> Result<(), ConfigError> {
        match LOSS_SCALE.iter().position(|name| *name == key) {
            Some(i) => self.set(Key::LOSS_SCALE[i], value, source),
            None => Err(unknown_key(key, "loss_scale", LOSS_SCALE, source)),
        }
    }

    fn set(&mut self, key: Key, value: &Value, source: Source) -> Result<(), ConfigError> {
        let place = || Place::new(source.clone(), key.path());
        let scale = |powers| power_of_two(value, powers, place);
        let config = &mut self.config;
        let loss_scale = &mut config.loss_scale;
        match key {
            Key::Preset => {
                config.preset = name(value, "preset", Preset::NAMES, place)?;
            }
            Key::Compute => {
                config.compute = name(value, "compute dtype", Compute::NAMES, place)?;
            }
            Key::Op(op) => {
                let names = Class::ALL.map(Class::name);
                config.ops.insert(op, name(value, "class", &names, place)?);
            }
            Key::Mode => {
                loss_scale.mode = name(value, "mode", LossScaleMode::NAMES, place)?;
            }
            Key::Init => loss_scale.init = scale(&SCALE)?,
            Key::Min => loss_scale.min = scale(&SCALE)?,
            Key::Max => loss_scale.max = scale(&SCALE)?,
            Key::GrowthFactor => loss_scale.growth_factor = scale(&GROWTH_FACTOR)?,
            Key::BackoffFactor => loss_scale.backoff_factor = scale(&BACKOFF_FACTOR)?,
            Key::GrowthInterval => loss_scale.growth_interval = count(value, place)?,
            Key::Hysteresis => loss_scale.hysteresis = count(value, place)?,
            Key::Sync => loss_scale.sync = boolean(value, place)?,
        }
        self.sources.insert(key, source);
        Ok(())
    }
}
