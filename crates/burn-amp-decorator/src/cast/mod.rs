//! The path of one op through the decorator.
//!
//! * [`forward`]: a macro that turns each row of `burn_amp_core`'s table into a method
//! * [`unchanged`]: a call that is that of the plain backend
//! * [`invocation`]: a call that is compared or recorded, seen as its caller does
//! * [`signature`]: its arguments and results as data; [`again`] runs an op on them
//! * [`call`]: one call: the method shows it the operands, it asks the policy for the casts and wraps the result
//! * [`callee`]: the op that is called, of the table or of the user's own
//! * [`parameters`]: the class that a parameter gives to the calls that read it
//! * [`recompute`]: which results a graph computes again in the backward pass
//! * [`scope`]: a scope in which every op runs in F32
//! * [`stepped`]: the new parameters of an optimizer that is not burn-amp's
//! * [`observe`]: a hook that sees every cast
//! * [`locate`]: looks for the first call that makes inf or NaN
//! * [`shadow`]: runs each op once more in F32, and compares
//! * [`record`]: takes the calls of a step for a file that is run again
//! * [`plain`]: arguments that are no tensors, in such a file
//! * [`sample`]: a sample of the values that are cast
//! * [`watch`]: what a call looked at, decided and returned, for diagnoses, and [`watchers`], who are shown it

pub(crate) mod again;
pub(crate) mod call;
mod callee;
pub(crate) mod forward;
pub(crate) mod invocation;
pub(crate) mod locate;
pub(crate) mod observe;
pub(crate) mod parameters;
pub(crate) mod plain;
mod recompute;
pub(crate) mod record;
pub(crate) mod sample;
pub(crate) mod scope;
pub(crate) mod shadow;
pub(crate) mod signature;
pub(crate) mod stepped;
pub(crate) mod unchanged;
mod watch;
pub(crate) mod watchers;
