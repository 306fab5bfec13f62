//! * `messages`: one bad configuration of each kind, and its message
//! * `variables`: the environment
//! * `files`: which file is read
//! * `keys`: the table of keys is the only place that knows them
//! * `properties`: round trip, no panic, precedence

mod files;
mod keys;
mod messages;
mod properties;
mod variables;

use std::path::Path;

use super::{Config, ConfigError};

fn toml(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml(text, Path::new("amp.toml"))
}

fn json(text: &str) -> Result<Config, ConfigError> {
    Config::from_json(text, Path::new("amp.json"))
}

/// The message of a result that must be an error.
fn message(result: Result<Config, ConfigError>) -> String {
    match result {
        Ok(config) => format!("no error, but\n{config}"),
        Err(error) => error.to_string(),
    }
}
