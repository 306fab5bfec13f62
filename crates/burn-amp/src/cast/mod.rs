//! The way of one op through the decorator.
//!
//! A row of `burn_amp_core`'s table becomes a method in [`forward`]; the method describes its operands to a [`call`],
//! which asks the policy for the casts and wraps the result.
//!
//! * [`scope`]: a scope in which the policy is off
//! * [`observe`]: a view of every cast

pub(crate) mod call;
pub(crate) mod forward;
pub(crate) mod observe;
pub(crate) mod scope;
