//! A backend that counts what a pass launches and moves, and lets another backend compute.
//!
//! Every op of the inner backend is one launch, which reads its operands and writes its results once. So is a
//! [`Kernel`](burn_amp_kernels::kernel::Kernel), as on a GPU, although the inner backend may compose it of several ops;
//! one that is always composed counts as the ops of its reference.
//!
//! * [`launches`]: the record of a thread
//! * [`ops`]: the op traits of Burn, generated from the table of all ops
//! * [`kernels`]: the ops of burn-amp-kernels

mod kernels;
mod launches;
mod ops;

use std::marker::PhantomData;

use burn_backend::{Backend, BackendTypes, DType, DTypeUsageSet};

pub use launches::{Launch, highest, recorded, skip_through};

/// Counts the launches of the backend `B`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting<B>(PhantomData<B>);

impl<B: Backend> BackendTypes for Counting<B> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type FloatElem = B::FloatElem;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type IntElem = B::IntElem;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type BoolElem = B::BoolElem;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
}

impl<B: burn_amp_kernels::AmpBackend> Backend for Counting<B> {
    fn name(device: &Self::Device) -> String {
        format!("counting<{}>", B::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }
}

#[cfg(test)]
mod tests;
