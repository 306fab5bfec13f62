//! Records the tensors that ops make, so that a report can say which of them a graph keeps for its backward pass.
//!
//! A graph of Burn's `Autodiff` cannot be asked for its tensors. But an op knows what it makes, and a [`Memory`] says
//! later whether it is still in use.

use std::{
    any::Any,
    cell::RefCell,
    fmt,
    sync::{
        Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{AmpBackend, sign_mask::SignMask};

/// A weak reference to the memory of a tensor. Views of the tensor share its memory.
#[derive(Clone)]
pub struct Memory {
    holders: Weak<dyn Any + Send + Sync>,
    bytes: usize,
}

impl Memory {
    /// The memory of a tensor on the host.
    #[cfg(feature = "flex")]
    pub(crate) fn on_host(tensor: &burn_flex::FlexTensor) -> Self {
        let data = tensor.data_arc();
        let bytes = data.len();
        let data: std::sync::Arc<dyn Any + Send + Sync> = data;
        Self {
            holders: std::sync::Arc::downgrade(&data),
            bytes,
        }
    }

    /// Whether a tensor still uses the memory.
    pub fn is_held(&self) -> bool {
        self.holders.strong_count() > 0
    }

    /// Returns an address that no other memory has as long as this value lives.
    pub fn address(&self) -> usize {
        self.holders.as_ptr().addr()
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("bytes", &self.bytes)
            .field("is_held", &self.is_held())
            .finish()
    }
}

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

/// Records a mask, and returns it.
pub(crate) fn mask<B: AmpBackend>(mask: SignMask<B>) -> SignMask<B> {
    match &mask {
        SignMask::Bits(bits) => int::<B>(bits),
        SignMask::Bools(bools) => bool::<B>(bools),
    }
    mask
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
