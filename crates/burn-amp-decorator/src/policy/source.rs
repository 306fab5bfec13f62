//! The sources of a configuration.

use std::{
    any::TypeId,
    fmt::{self, Display},
    panic::Location,
    sync::Once,
};

use burn_amp_core::{Config, ConfigError, Loaded, Precision};

use crate::warn;

/// A source of the configuration, and with it of the policy.
///
/// Implement it for a marker type of your own to run several policies in one process:
///
/// ```
/// use burn_amp::{Amp, config::{Compute, Config, ConfigError, ConfigSource}};
///
/// struct InBf16;
///
/// impl ConfigSource for InBf16 {
///     fn config() -> Result<Config, ConfigError> {
///         Ok(Config { compute: Compute::Bf16, ..Config::default() })
///     }
/// }
///
/// type B = Amp<burn::backend::Flex, InBf16>;
/// ```
pub trait ConfigSource: Send + Sync + 'static {
    /// Returns the configuration. Called when a device is first used, unless [`configure`](crate::configure) was called
    /// for the device before.
    fn config() -> Result<Config, ConfigError>;

    /// What keeps the contexts of this source apart from those of others: its type. The tests of burn-amp have one type
    /// for many policies, because each type instantiates all of Burn.
    #[doc(hidden)]
    fn key() -> TypeId {
        TypeId::of::<Self>()
    }
}

/// Takes the configuration from `amp.toml` and the `BURN_AMP_*` environment variables, see
/// [`Config::load`](burn_amp_core::Config::load).
#[derive(Clone, Copy, Debug, Default)]
pub struct FromFile;

impl ConfigSource for FromFile {
    fn config() -> Result<Config, ConfigError> {
        static SAID: Once = Once::new();

        let loaded = Loaded::load()?;
        if let Some(file) = loaded.file() {
            SAID.call_once(|| warn::say(&format!("configuration from {}", file.display())));
        }
        Ok(loaded.config)
    }
}

impl SetupError {
    /// The section of the book's page of messages.
    pub(crate) fn section(&self) -> &'static str {
        match self {
            Self::Config(_) => "the-configuration-is-wrong",
            Self::UnsupportedDtype { .. } | Self::UnsupportedSaved { .. } => {
                "the-device-lacks-the-dtype"
            }
            Self::InForce { .. } => "configured-too-late",
        }
    }
}

/// Who put a policy in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InForceBy {
    /// A call of [`configure`](crate::configure), at this place.
    Configure(&'static Location<'static>),
    /// The first use of the device, which took the configuration of its source.
    FirstUse,
}

impl Display for InForceBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configure(place) => write!(
                f,
                "`configure` was called at {}:{}; call it once",
                place.file(),
                place.line()
            ),
            Self::FirstUse => f.write_str(
                "the first tensor, or a question about the policy or the loss scale, came before; configure before",
            ),
        }
    }
}

/// The reason why a configuration cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The configuration itself is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The device cannot compute in the dtype that the configuration asks for.
    #[error("compute: {device} cannot store and compute in {compute}; it can in: {supported}")]
    UnsupportedDtype {
        /// The device.
        device: String,
        /// The dtype that the configuration asks for.
        compute: Precision,
        /// The dtypes that the device supports, as a list to read.
        supported: String,
    },
    /// The device cannot store integers of eight bits, which `saved = "8bit"` needs.
    #[error("saved: {device} cannot store i8, which \"8bit\" needs; \"whole\" does not")]
    UnsupportedSaved {
        /// The device.
        device: String,
    },
    /// A policy is in force on this device already, and a policy in force never changes.
    #[error("a policy is in force on {device} already: {by}")]
    InForce {
        /// The device.
        device: String,
        /// Who put it in force.
        by: InForceBy,
    },
}
