//! The policy in force on a device.
//!
//! * [`source`]: the sources of a configuration
//! * [`context`]: the policy, loss scale and leaves of one device, which every tensor points to
//! * [`compute`]: the compute dtype that `compute = "auto"` chooses
//! * [`locator`]: whether the calls on a device are searched for one that overflows
//! * [`recorder`]: the calls of the current step on a device, for a file that is run again
//! * [`registry`]: one context for each configuration source, backend and device

mod compute;
mod context;
mod health;
mod locator;
mod recorder;
mod registry;
mod source;

pub use context::Context;
pub(crate) use locator::Locator;
pub(crate) use recorder::{KeptTensor, Key, Outside, StepRecording, next_id};
pub use source::{ConfigSource, FromFile, InForceBy, SetupError};
