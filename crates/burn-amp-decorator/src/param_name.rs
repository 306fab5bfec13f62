//! The name of a parameter, which may become known later than the parameter.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// The path of a parameter in its module, `encoder.layers.3.linear1.weight`, once somebody has told it.
///
/// All clones share it. So the report of a step that was skipped before the name was known has the name later.
#[derive(Clone, Default)]
pub struct ParamName(Arc<OnceLock<Arc<str>>>);

impl ParamName {
    /// Returns the path, if it is known by now.
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(|name| &**name)
    }

    /// Sets the path, unless it is known.
    #[doc(hidden)]
    pub fn set(&self, name: &Arc<str>) {
        self.0.get_or_init(|| name.clone());
    }
}

impl PartialEq for ParamName {
    /// Compares the paths as they are known by now.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for ParamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
