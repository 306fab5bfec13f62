//! Builds what the mistakes need.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::Message;

use crate::workspace;

/// The libraries and programs, with the features that the whole workspace has: those of the step `test`.
pub struct Built {
    /// The libraries by their names in Rust.
    libraries: BTreeMap<String, PathBuf>,
    programs: BTreeMap<String, PathBuf>,
}

impl Built {
    pub fn new() -> Result<Self> {
        let mut cargo = workspace::cargo(&["build", "--workspace", "--lib"]);
        cargo.args(["--bin", "burn-amp", "--bin", "digits", "--bin", "learner"]);
        cargo.args(["--example", "mistakes"]);
        cargo.arg("--message-format=json-render-diagnostics");
        let messages = workspace::output(&mut cargo)?;
        let mut built = Self {
            libraries: BTreeMap::new(),
            programs: BTreeMap::new(),
        };
        for message in Message::parse_stream(messages.as_bytes()) {
            let Message::CompilerArtifact(artifact) = message? else {
                continue;
            };
            let name = artifact.target.name;
            if let Some(program) = artifact.executable {
                built.programs.insert(name, program.into());
            } else if let Some(library) = artifact
                .filenames
                .into_iter()
                .find(|file| file.extension() == Some("rlib"))
            {
                built
                    .libraries
                    .insert(name.replace('-', "_"), library.into());
            }
        }
        Ok(built)
    }

    pub fn library(&self, name: &str) -> Result<&PathBuf> {
        self.libraries
            .get(name)
            .with_context(|| format!("cargo built no library `{name}`"))
    }

    pub fn program(&self, name: &str) -> Result<&PathBuf> {
        self.programs
            .get(name)
            .with_context(|| format!("cargo built no program `{name}`"))
    }
}
