//! Finds the file, and puts the variables over it.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{self, Path, PathBuf},
};

use super::{
    Config, ConfigError,
    document::Document,
    draft::Draft,
    json,
    key::{self, FILE_VARIABLE, Key, OPS_VARIABLE, PREFIX},
    nearest::nearest,
    toml,
};

const TOML: &str = "amp.toml";
const JSON: &str = "amp.json";

impl Config {
    /// The configuration of this process: defaults < `amp.toml` < `BURN_AMP_*` variables.
    ///
    /// As [`Config::load_from`] with the working directory and the variables of the process. Reads them anew at every
    /// call.
    ///
    /// # Errors
    ///
    /// Says where the first thing stands that is wrong, and what is allowed there.
    pub fn load() -> Result<Self, ConfigError> {
        // what is not UTF-8 gets a character that no name, number or path of ours has, and so an error further on
        let variables = env::vars_os().map(|(name, text)| {
            let text = text.to_string_lossy().into_owned();
            (name.to_string_lossy().into_owned(), text)
        });
        Self::load_from(Path::new(""), variables)
    }

    /// The configuration for a directory and a set of variables.
    ///
    /// * The file is the one that `BURN_AMP_CONFIG` names, relative to `dir`; it must be there. Otherwise it is
    ///   `amp.toml` or `amp.json` in `dir` or in its nearest ancestor that has one; there may be none.
    /// * A file whose name ends in `.json` is read as JSON, any other as TOML.
    /// * Every key has a variable: `BURN_AMP_PRESET`, `BURN_AMP_LOSS_SCALE_INIT`. `BURN_AMP_OPS` has the form
    ///   `float_exp=full,softmax=keep`; it is put over the file's overrides op by op.
    /// * Variables that do not begin with `BURN_AMP_` are not looked at; of those that do, each must be known.
    ///
    /// # Errors
    ///
    /// Says where the first thing stands that is wrong, and what is allowed there.
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
    /// assert_eq!(config.loss_scale.init, 1024.0);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
        if let Some(file) = file(dir, named)? {
            draft = draft.document(parse(&file)?)?;
        }
        for key in Key::with_variable() {
            if let Some(text) = variables.remove(&key.variable()) {
                draft = draft.variable(key, text)?;
            }
        }
        if let Some(text) = variables.remove(OPS_VARIABLE) {
            draft = draft.ops_variable(&text)?;
        }
        match variables.into_keys().next() {
            Some(unknown) => Err(unknown_variable(unknown)),
            None => draft.finish(),
        }
    }
}

/// The file to read.
fn file(dir: &Path, named: Option<String>) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(named) = named {
        let file = dir.join(named);
        return match file.is_file() {
            true => Ok(Some(file)),
            false => Err(ConfigError::NoFile {
                variable: FILE_VARIABLE,
                file,
            }),
        };
    }
    let absolute = match dir.as_os_str().is_empty() {
        true => env::current_dir(),
        false => path::absolute(dir),
    };
    let absolute = absolute.map_err(|source| ConfigError::Unreadable {
        file: dir.into(),
        source,
    })?;
    for dir in absolute.ancestors() {
        let (toml, json) = (dir.join(TOML), dir.join(JSON));
        match (toml.exists(), json.exists()) {
            (true, true) => return Err(ConfigError::TwoFiles { toml, json }),
            (true, false) => return Ok(Some(toml)),
            (false, true) => return Ok(Some(json)),
            (false, false) => {}
        }
    }
    Ok(None)
}

fn parse(file: &Path) -> Result<Document, ConfigError> {
    let text = fs::read_to_string(file).map_err(|source| ConfigError::Unreadable {
        file: file.into(),
        source,
    })?;
    match file
        .extension()
        .is_some_and(|extension| extension == "json")
    {
        true => json::parse(&text, file),
        false => toml::parse(&text, file),
    }
}

fn unknown_variable(variable: String) -> ConfigError {
    let allowed = key::variables();
    // without the prefix, which would lend its letters to the tolerance
    let names = allowed.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let nearest = nearest(&variable[PREFIX.len()..], names).map(|name| format!("{PREFIX}{name}"));
    ConfigError::UnknownVariable {
        variable,
        allowed,
        nearest,
    }
}
