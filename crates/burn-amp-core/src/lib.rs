//! The part of burn-amp that does not depend on Burn: the precision of every op, the loss scale and the configuration.
//!
//! ```
//! use burn_amp_core::{Dtype, Op, Operands, Policy};
//!
//! let policy = Policy::new(Dtype::BF16, &Default::default());
//! let operands = Operands::default().and(Dtype::F32, Dtype::F32).and(Dtype::BF16, Dtype::F32);
//! assert_eq!(policy.casts(Op::float_matmul, operands).operands, Some(Dtype::BF16));
//! assert_eq!(policy.casts(Op::float_add, operands).operands, Some(Dtype::F32));
//! ```
//!
//! * [`Dtype`]: float dtypes and their promotion lattice
//! * [`Class`]: how an op's float operands are cast
//! * [`Op`]: the ops by name, generated from the table in `table.rs`
//! * [`Policy`]: the compute dtype and the class of every op, which decide the casts of every call
//! * [`scalar`]: the scalar guard
//! * [`LossScaling`]: the loss scale as a pure state machine
//! * [`Config`]: `amp.toml` and the environment variables; [`Key`] is a row of the table of their keys

#![warn(missing_docs)]

mod class;
mod config;
mod dtype;
mod loss_scale;
mod named;
mod op;
mod policy;
#[doc(hidden)]
pub mod row;
pub mod scalar;
mod table;

pub use class::Class;
pub use config::{
    Compute, Config, ConfigError, Key, LossScaleConfig, LossScaleMode, Place, Preset, Source,
};
pub use dtype::Dtype;
pub use loss_scale::{DynamicLossScale, LossScaleState, LossScaling, Outcome};
pub use op::Op;
pub use policy::{Casts, Operands, Policy};
