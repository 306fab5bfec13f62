//! One backend type for all policies of the suite, so that Burn and the models are compiled for it once.
//!
//! Its policy is that of the last [`enter`] whose guard is alive. Contexts are kept apart by policy, as those of
//! different types are.

use std::{
    any::TypeId,
    marker::PhantomData,
    sync::{Mutex, MutexGuard, PoisonError},
};

use burn_amp::config::{Config, ConfigError, ConfigSource};

/// The source whose policy is the last one entered.
#[derive(Clone, Copy, Debug, Default)]
pub struct InForce;

/// The source that stands for the policy `Self`.
pub trait Policy {
    /// [`InForce`], for every policy.
    type Source: ConfigSource;
}

impl<P: ConfigSource> Policy for P {
    type Source = InForce;
}

/// An entered policy.
#[derive(Clone, Copy)]
struct Entry {
    key: TypeId,
    config: fn() -> Result<Config, ConfigError>,
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
    let last = entered().last().copied();
    last.expect("call `enter::<P>()` before `AmpAutodiff<P>` or `Amp<P>` is used")
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
pub struct Guard<P>(PhantomData<P>);

/// Puts the policy `P` in force for `AmpAutodiff<_>` and `Amp<_>`, until the guard is dropped.
pub fn enter<P: ConfigSource>() -> Guard<P> {
    entered().push(Entry {
        key: P::key(),
        config: P::config,
    });
    Guard(PhantomData)
}

impl<P> Drop for Guard<P> {
    fn drop(&mut self) {
        entered().pop();
    }
}

/// Calls a function while the policy `P` is in force.
pub fn within<P: ConfigSource, R>(function: impl FnOnce() -> R) -> R {
    let _policy = enter::<P>();
    function()
}
