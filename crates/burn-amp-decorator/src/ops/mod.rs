//! The implementations of Burn's op traits, in files named as in Burn, and the [rules] of ops.

mod activation;
mod binary;
mod bool_tensor;
mod custom;
mod filled;
mod images;
mod int_tensor;
mod lazy;
mod module;
mod qtensor;
mod reshaped;
mod rules;
mod scalar;
mod scores;
mod tensor;
mod transaction;
