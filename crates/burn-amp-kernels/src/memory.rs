//! Weak references to the memory of tensors.

use std::{any::Any, sync::Weak};

/// A weak reference to the memory of a tensor. Views of the tensor share its memory.
#[derive(Clone, Debug)]
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
