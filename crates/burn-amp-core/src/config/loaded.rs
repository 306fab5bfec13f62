//! A configuration with the origin of each of its values.

use std::path::{Path, PathBuf};

use super::{Config, Key, Source, sources::Sources};
use crate::Op;

/// A configuration that was read, with the origin of each value.
///
/// ```
/// use burn_amp_core::{Key, Loaded, Op, Source};
///
/// # let dir = std::env::temp_dir().join(format!("burn-amp-loaded-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// std::fs::write(dir.join("amp.toml"), "compute = \"f16\"\n[ops]\nfloat_exp = \"keep\"\n")?;
/// let loaded = Loaded::load_from(&dir, [("BURN_AMP_PRESET".to_string(), "o3".to_string())])?;
/// let origin = |path| Key::find(path).and_then(|key| loaded.origin(key)).map(Source::to_string);
/// assert_eq!(origin("preset").unwrap(), "BURN_AMP_PRESET");
/// assert!(origin("compute").unwrap().ends_with("amp.toml:1"));
/// assert_eq!(origin("loss_scale.init"), None);
/// assert!(loaded.origin_of_op(Op::float_exp).unwrap().to_string().ends_with("amp.toml:3"));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    pub(super) file: Option<PathBuf>,
    pub(super) sources: Sources,
}

impl Loaded {
    /// The defaults, which no source has set.
    pub fn defaults() -> Self {
        Self {
            config: Config::default(),
            file: None,
            sources: Sources::default(),
        }
    }

    /// The file that was read, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where the value of a key was read from; `None` if it is the default.
    ///
    /// For a table whose keys are not fixed this is the last source that had an entry.
    pub fn origin(&self, key: &Key) -> Option<&Source> {
        self.sources.get(key.path())
    }

    /// Where the class of an op was read from; `None` if it is that of the preset.
    pub fn origin_of_op(&self, op: Op) -> Option<&Source> {
        self.sources.get(&format!("ops.{op}"))
    }
}
