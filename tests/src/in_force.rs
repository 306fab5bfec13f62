//! One backend type for all policies of the suite, so that Burn and the models are compiled for it once.
//!
//! Its policy is that of the last [`enter`] whose guard is alive. Contexts are kept apart by policy, as those of
//! different types are.

use std::{
    any::{Any, TypeId},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use burn_amp::config::{Config, ConfigError, ConfigSource};

/// The source whose policy is the last one entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct InForce;

/// An entered policy.
#[derive(Clone)]
struct Entry {
    key: TypeId,
    config: Arc<dyn Fn() -> Result<Config, ConfigError> + Send + Sync>,
}

/// The policies entered in this process, which runs one test at a time; a test may use several threads.
static ENTERED: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

fn entered() -> MutexGuard<'static, Vec<Entry>> {
    // A test that fails leaves nothing half done.
    ENTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The policy in force.
///
/// # Panics
///
/// Panics if there is none.
fn last() -> Entry {
    let last = entered().last().cloned();
    last.expect("call `enter::<P>()` before `AmpAutodiff` or `Amp` is used")
}

impl ConfigSource for InForce {
    fn config() -> Result<Config, ConfigError> {
        (last().config)()
    }

    fn key() -> TypeId {
        last().key
    }
}

/// Leaves the policy when dropped.
#[must_use = "the policy is in force until this is dropped"]
pub struct Guard(());

/// Puts the policy `P` in force for `AmpAutodiff` and `Amp`, until the guard is dropped.
pub fn enter<P: ConfigSource>() -> Guard {
    entered().push(Entry {
        key: P::key(),
        config: Arc::new(P::config),
    });
    Guard(())
}

/// Puts a configuration in force as [`enter`] does. The closure is the policy's name: no other one shares its context.
pub fn enter_config(config: impl Fn() -> Config + Send + Sync + 'static) -> Guard {
    entered().push(Entry {
        key: config.type_id(),
        config: Arc::new(move || Ok(config())),
    });
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        entered().pop();
    }
}

/// Calls a function while the policy `P` is in force.
pub fn within<P: ConfigSource, R>(function: impl FnOnce() -> R) -> R {
    let _policy = enter::<P>();
    function()
}
