//! The forwarders of Burn's op traits, in files named as upstream names them.

mod activation;
mod bool_tensor;
mod custom;
mod int_tensor;
mod module;
mod qtensor;
mod tensor;
mod transaction;
