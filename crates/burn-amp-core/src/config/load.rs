//! Finds the file and puts the sources together, weaker ones first: defaults, file, environment variables.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{self, Path, PathBuf},
};

use super::{
    Config, ConfigError, Loaded, Place, Source, check,
    keys::{FILE_VARIABLE, Key, PREFIX},
    sources::Sources,
    tree::{self, Table, Value, no_duplicates},
};
use crate::nearest::nearest;

const TOML: &str = "amp.toml";
const JSON: &str = "amp.json";

impl Config {
    /// The configuration of this process: defaults < `amp.toml` < `BURN_AMP_*` variables.
    ///
    /// The same as [`Config::load_from`] with the working directory and the variables of the process. Every call reads
    /// them again.
    ///
    /// # Errors
    ///
    /// The first mistake: where it is, and what is allowed there.
    pub fn load() -> Result<Self, ConfigError> {
        Loaded::load().map(|loaded| loaded.config)
    }

    /// The configuration for a directory and a set of variables.
    ///
    /// * The file is the one that `BURN_AMP_CONFIG` names, relative to `dir`; it must exist. Without that variable it is
    ///   `amp.toml` or `amp.json` in `dir` or in the nearest of its ancestors that has one; there may be none.
    /// * A file whose name ends in `.json` is read as JSON, any other as TOML.
    /// * Every key has a variable: `BURN_AMP_PRESET`, `BURN_AMP_LOSS_SCALE_INIT`. `BURN_AMP_OPS` has the form
    ///   `float_exp=full,softmax=keep`; it overrides the file op by op.
    /// * Variables that do not begin with `BURN_AMP_` are ignored; every variable that does must be known.
    ///
    /// # Errors
    ///
    /// The first mistake: where it is, and what is allowed there.
    ///
    /// ```
    /// use burn_amp_core::{Compute, Config};
    ///
    /// # let dir = std::env::temp_dir().join(format!("burn-amp-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// std::fs::write(dir.join("amp.toml"), "compute = \"f16\"\nloss_scale.init = 1024\n")?;
    /// let variables = [("BURN_AMP_COMPUTE".to_string(), "bf16".to_string())];
    /// let config = Config::load_from(&dir, variables)?;
    /// assert_eq!(config.compute, Compute::Bf16);
    /// assert_eq!(config.loss_scale.rule.init, 1024.0);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load_from(
        dir: &Path,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Loaded::load_from(dir, variables).map(|loaded| loaded.config)
    }
}

impl Loaded {
    /// The configuration of this process, as [`Config::load`] finds it, with the origin of each value.
    ///
    /// # Errors
    ///
    /// The same as those of [`Config::load`].
    pub fn load() -> Result<Self, ConfigError> {
        // text that is not UTF-8 gets a replacement character, which is in no name, number or path that is allowed
        let variables = env::vars_os().map(|(name, text)| {
            let text = text.to_string_lossy().into_owned();
            (name.to_string_lossy().into_owned(), text)
        });
        Self::load_from(Path::new(""), variables)
    }

    /// The configuration for a directory and a set of variables, as [`Config::load_from`] finds it, with the origin of
    /// each value.
    ///
    /// # Errors
    ///
    /// The same as those of [`Config::load_from`].
    pub fn load_from(
        dir: &Path,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut variables: BTreeMap<_, _> = variables
            .into_iter()
            .filter(|(name, _)| name.starts_with(PREFIX))
            .collect();
        let named = variables.remove(FILE_VARIABLE);
        let mut draft = Draft::default();
        let file = find(dir, named)?;
        if let Some(file) = &file {
            let text = fs::read_to_string(file).map_err(|reason| ConfigError::Unreadable {
                file: file.clone(),
                reason,
            })?;
            let is_json = file
                .extension()
                .is_some_and(|extension| extension == "json");
            let parse = if is_json { tree::json } else { tree::toml };
            draft.file(&parse(&text, file)?, file)?;
        }
        for key in Key::ALL {
            if let Some((variable, text)) = variables.remove_entry(&key.variable()) {
                let place = Place::new(Source::Variable(variable), key.path());
                draft.set(key, &Value::Text(text), place)?;
            }
        }
        match variables.into_keys().next() {
            Some(unknown) => Err(unknown_variable(unknown)),
            None => draft.loaded(file),
        }
    }
}

/// A configuration in the making, and the sources of its values.
#[derive(Default)]
pub(super) struct Draft {
    config: Config,
    sources: Sources,
}

impl ConfigError {
    /// A key that its table does not have. If another table has it, that is the hint.
    fn unknown_key(place: Place, name: &str, known: &[&str]) -> Self {
        let elsewhere = of_another_table(&name.to_lowercase().replace('-', "_"));
        let nearest = match elsewhere {
            Some(key) if nearest(name, known.iter().copied()).is_none() => Some(key.path()),
            Some(_) | None => nearest(name, known.iter().copied()),
        };
        Self::Unknown {
            place: Box::new(place),
            what: "key",
            name: name.into(),
            allowed: known.join(", "),
            nearest: nearest.map(str::to_owned),
        }
    }
}

impl Draft {
    /// Puts the values of a file over the ones so far.
    pub(super) fn file(&mut self, root: &Table, file: &Path) -> Result<(), ConfigError> {
        let source = Source::File {
            file: file.into(),
            line: None,
        };
        self.table(root, &Place::new(source, ""))
    }

    /// The configuration, checked.
    pub(super) fn finish(self) -> Result<Config, ConfigError> {
        self.loaded(None).map(|loaded| loaded.config)
    }

    /// The configuration, checked, with the origin of each value.
    fn loaded(self, file: Option<PathBuf>) -> Result<Loaded, ConfigError> {
        check::config(&self.config, &self.sources)?;
        Ok(Loaded {
            config: self.config,
            file,
            sources: self.sources,
        })
    }

    fn table(&mut self, table: &Table, place: &Place) -> Result<(), ConfigError> {
        no_duplicates(table, place)?;
        for entry in table {
            let (place, name) = (place.at(entry.line), entry.key.as_str());
            let known = Key::inside(&place.key);
            if !known.contains(&name) {
                return Err(ConfigError::unknown_key(place, name, &known));
            }
            let place = place.child(name);
            match (Key::find(&place.key), &entry.value) {
                (Some(key), value) => self.set(key, value, place)?,
                (None, Value::Table(table)) => self.table(table, &place)?,
                (None, other) => return Err(ConfigError::unexpected(place, "a table", other)),
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &Key, value: &Value, place: Place) -> Result<(), ConfigError> {
        key.set(&mut self.config, value, &place)?;
        self.sources.insert_value(key, value, place);
        Ok(())
    }
}

/// The file to read.
fn find(dir: &Path, named: Option<String>) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(named) = named {
        let file = dir.join(named);
        if file.is_file() {
            return Ok(Some(file));
        }
        return Err(ConfigError::NoFile {
            variable: FILE_VARIABLE,
            file,
        });
    }
    let absolute = if dir.as_os_str().is_empty() {
        env::current_dir()
    } else {
        path::absolute(dir)
    };
    let absolute = absolute.map_err(|reason| ConfigError::Unreadable {
        file: dir.into(),
        reason,
    })?;
    for dir in absolute.ancestors() {
        let (toml, json) = (dir.join(TOML), dir.join(JSON));
        // A link that leads nowhere is there too: reading it gives the error.
        let is_there = |file: &Path| file.symlink_metadata().is_ok();
        match (is_there(&toml), is_there(&json)) {
            (true, true) => return Err(ConfigError::TwoFiles { toml, json }),
            (true, false) => return Ok(Some(toml)),
            (false, true) => return Ok(Some(json)),
            (false, false) => {}
        }
    }
    Ok(None)
}

/// The key of this name in a table, if only one table has it.
fn of_another_table(name: &str) -> Option<&'static Key> {
    let mut found = Key::ALL.iter().filter(|key| key.table_and_name().1 == name);
    found.next().filter(|_| found.next().is_none())
}

fn unknown_variable(name: String) -> ConfigError {
    let mut allowed: Vec<_> = Key::ALL.iter().map(Key::variable).collect();
    allowed.push(FILE_VARIABLE.into());
    allowed.sort_unstable();
    // compared without the prefix, which would make any two variables alike
    let rest = &name[PREFIX.len()..];
    let candidates = allowed.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let nearest = nearest(rest, candidates)
        .map(|name| format!("{PREFIX}{name}"))
        .or_else(|| of_another_table(&rest.to_lowercase()).map(Key::variable))
        .or_else(|| (rest == "LOSS_SCALE").then(|| format!("{name}_INIT")));
    ConfigError::Unknown {
        place: Box::new(Place::new(Source::Environment, "")),
        what: "variable",
        name,
        allowed: allowed.join(", "),
        nearest,
    }
}
