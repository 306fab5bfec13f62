//! The part of burn-amp that does not depend on Burn: the precision of every op, the loss scale and the configuration.
//!
//! ```
//! use burn_amp_core::{Precision, Op, Operands, Policy};
//!
//! let policy = Policy::new(Precision::BF16, &Default::default());
//! let operands = Operands::default().and(Precision::F32, Precision::F32).and(Precision::BF16, Precision::F32);
//! assert_eq!(policy.casts(Op::float_matmul, operands).operands, Some(Precision::BF16));
//! assert_eq!(policy.casts(Op::float_add, operands).operands, Some(Precision::F32));
//! ```
//!
//! * [`Precision`]: float dtypes and their promotion lattice
//! * [`Class`]: how an op's float operands are cast
//! * [`Op`]: the ops by name, generated from the table in `table.rs`
//! * [`Policy`]: the compute dtype and the class of every op, which decide the casts of every call
//! * [`scalar`]: the scalar guard
//! * [`LossScaling`]: the loss scale as a pure state machine
//! * [`NormGuard`]: which steps have gradients that are outliers
//! * [`ParamPattern`]: parameters by the patterns of their paths
//! * [`formats`]: numbers of eight bits and fewer, and the recipes of products in them
//! * [`overflow`]: where a value overflowed
//! * [`health`]: gradients and updates that the precision loses
//! * [`report`]: the precision report, which `burn-amp` records
//! * [`replay`]: a step of training in a file, which is run again
//! * [`shadow`]: how far ops are from F32
//! * [`tune`]: an `amp.toml` that follows from both
//! * [`Config`]: `amp.toml` and the environment variables; [`Key`] is a row of the table of their keys

#![warn(missing_docs)]

mod class;
mod columns;
mod config;
mod dtype;
pub mod formats;
pub mod health;
mod loss_scale;
mod named;
mod nearest;
mod norm_guard;
mod op;
pub mod overflow;
mod param_pattern;
mod policy;
pub mod random;
mod reasons;
pub mod replay;
pub mod report;
#[doc(hidden)]
pub mod row;
pub mod scalar;
pub mod shadow;
mod table;
pub mod tune;

pub use class::Class;
pub use config::{
    Compute, Config, ConfigError, GradientsConfig, HealthConfig, Key, Loaded, LossScaleConfig,
    LossScaleMode, OverflowConfig, Place, Preset, ReplayConfig, ReportConfig, Saved, Source,
};
pub use dtype::Precision;
pub use loss_scale::{DynamicLossScale, LossScaleState, LossScaling, Outcome, Search};
pub use norm_guard::{NormGuard, RecentNorms};
pub use op::Op;
pub use param_pattern::{ParamPattern, class_of_parameter};
pub use policy::{Casts, Operands, Policy};
