//! Records the tensors that ops make, so that a report can say which of them a graph keeps for its backward pass.
//!
//! A graph of Burn's `Autodiff` cannot be asked for its tensors. But an op knows what it makes, and a [`Memory`] says
//! later whether it is still in use.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicUsize, Ordering},
};

use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::AmpBackend;
pub use crate::memory::Memory;

/// A tensor that an op made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its memory.
    pub memory: Memory,
    /// Its dtype.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
}

/// How many recordings are on.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MADE: RefCell<Vec<Made>> = const { RefCell::new(Vec::new()) };
}

/// Turns the record on, until [`end`].
pub fn begin() {
    LISTENERS.fetch_add(1, Ordering::Relaxed);
}

/// Turns the record off, unless [`begin`] was called more often.
pub fn end() {
    LISTENERS.fetch_sub(1, Ordering::Relaxed);
}

/// Takes the tensors that ops on this thread have made since the last time.
pub fn take() -> Vec<Made> {
    MADE.take()
}

/// Records a float tensor.
pub fn float<B: AmpBackend>(tensor: &FloatTensor<B>) {
    record(tensor, B::float_memory);
}

/// Records an int tensor.
pub fn int<B: AmpBackend>(tensor: &IntTensor<B>) {
    record(tensor, B::int_memory);
}

/// Records a bool tensor.
pub fn bool<B: AmpBackend>(tensor: &BoolTensor<B>) {
    record(tensor, B::bool_memory);
}

#[inline]
fn record<T: TensorMetadata>(tensor: &T, memory: impl Fn(&T) -> Option<Memory>) {
    if LISTENERS.load(Ordering::Relaxed) > 0
        && let Some(memory) = memory(tensor)
    {
        let made = Made {
            memory,
            dtype: tensor.dtype(),
            shape: tensor.shape(),
        };
        MADE.with_borrow_mut(|all| all.push(made));
    }
}
