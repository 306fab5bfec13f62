//! The implementations of Burn's op traits, in files named as in Burn.

mod activation;
mod binary;
mod bool_tensor;
mod custom;
mod filled;
mod indexed;
mod int_tensor;
mod lazy;
mod module;
mod qtensor;
mod scalar;
mod scores;
mod summed;
mod tensor;
mod transaction;
