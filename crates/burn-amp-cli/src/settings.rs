//! The configuration that the commands speak about.

use std::{env, path::Path};

use burn_amp_core::{Compute, Config, ConfigError, Loaded, Op, Policy, Precision, Source};

use crate::{args::DeviceArgs, failure::Failure, input};

/// A configuration, and the policies that it gives on the devices in question.
pub struct Settings {
    pub loaded: Loaded,
    /// One policy for each compute dtype: two if the device decides between BF16 and F16.
    pub policies: Vec<Policy>,
}

impl Settings {
    /// The configuration of a run in this folder, or that of `file`.
    pub fn load(file: Option<&Path>, device: &DeviceArgs) -> Result<Self, Failure> {
        let mut variables: Vec<_> = env::vars_os()
            .map(|(name, text)| {
                let text = text.to_string_lossy().into_owned();
                (name.to_string_lossy().into_owned(), text)
            })
            .collect();
        if let Some(file) = file {
            // Read here for its errors only.
            input::text(file, "a configuration such as `amp.toml`")?;
            variables.push((
                "BURN_AMP_CONFIG".into(),
                file.to_string_lossy().into_owned(),
            ));
        }
        let loaded = Loaded::load_from(Path::new(""), variables).map_err(|error| match error {
            ConfigError::Unreadable { .. } => Failure::Usage(error.to_string()),
            _ => Failure::Wrong(error.to_string()),
        })?;
        Ok(Self::of(loaded, device))
    }

    /// The defaults.
    pub fn defaults(device: &DeviceArgs) -> Self {
        Self::of(Loaded::defaults(), device)
    }

    fn of(loaded: Loaded, device: &DeviceArgs) -> Self {
        let policies = compute_dtypes(&loaded.config, device)
            .into_iter()
            .map(|compute| loaded.config.policy(compute))
            .collect();
        Self { loaded, policies }
    }

    /// Where the class of an op is from: a file with its line, a variable, or the preset.
    pub fn origin_of_op(&self, op: Op) -> String {
        match self.loaded.origin_of_op(op) {
            Some(source) => origin(Some(source)),
            None => format!("preset {}", self.loaded.config.preset),
        }
    }

    /// Whether the configuration gives an op another class than preset `o1` does.
    pub fn changes(&self, op: Op) -> bool {
        let changed = |policy: &Policy| policy.class(op) != op.class(policy.compute());
        self.policies.iter().any(changed)
    }
}

/// The place of a value in words; a value that no source sets is a default.
pub fn origin(source: Option<&Source>) -> String {
    let Some(source) = source else {
        return "default".into();
    };
    let text = source.to_string();
    // A file below this folder is shown as the user would type it.
    match env::current_dir() {
        Ok(folder) => {
            let folder = format!("{}/", folder.display());
            text.strip_prefix(&folder).unwrap_or(&text).to_owned()
        }
        Err(_) => text,
    }
}

/// The dtypes that a device may compute in.
fn compute_dtypes(config: &Config, device: &DeviceArgs) -> Vec<Precision> {
    match (config.compute, config.preset) {
        (_, burn_amp_core::Preset::O0) | (Compute::F32, _) => vec![Precision::F32],
        (Compute::Bf16, _) => vec![Precision::BF16],
        (Compute::F16, _) => vec![Precision::F16],
        (Compute::Auto, _) => match device.compute {
            Some(compute) => vec![compute],
            None => vec![Precision::BF16, Precision::F16],
        },
    }
}
