//! The policy in force on a device.
//!
//! * [`source`]: the sources of a configuration
//! * [`context`]: the policy, loss scale and leaves of one device, which every tensor points to
//! * [`compute`]: the compute dtype that `compute = "auto"` chooses
//! * [`registry`]: one context for each configuration source, backend and device

mod compute;
mod context;
mod registry;
mod source;

pub use context::Context;
pub use source::{ConfigSource, FromFile, SetupError};
