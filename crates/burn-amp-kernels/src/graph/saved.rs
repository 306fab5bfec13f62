//! What a graph keeps of the operands that a backward pass reads: their values, or [eight bits](crate::eight_bits) of each.
//!
//! Who gives an op its operands [offers](offer) those of which eight bits do. The node of the op takes them only if its backward
//! pass reads them. All nodes that read one tensor, also by way of a cast, keep the same bits.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt::{self, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use burn_autodiff::{Autodiff, NodeId};
use burn_backend::{
    Backend, DType, FloatDType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor,
};

use super::AtNode;
use crate::{AmpBackend, eight_bits::EightBits, made};

/// The elements of the smallest tensor that is worth two more launches and their nodes.
pub const LEAST_ELEMENTS: usize = 4096;

static LEAST: AtomicUsize = AtomicUsize::new(LEAST_ELEMENTS);

/// Sets the elements of the smallest tensor of which eight bits are kept, for tests.
#[doc(hidden)]
pub fn set_least_elements(elements: usize) {
    LEAST.store(elements, Ordering::Relaxed);
}

/// The eight bits of a tensor, as soon as a node keeps them.
type Slot<B> = AtNode<Option<EightBits<B>>>;

thread_local! {
    /// Whether the op of this thread offers its operands.
    static OFFERS: Cell<bool> = const { Cell::new(false) };
    /// Holds the slots until the node of the op is made.
    static OFFERED: RefCell<Vec<Arc<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Begins an op, and says whether it `offers` its operands. What was offered to the op before is forgotten.
pub fn begin_op(offers: bool) {
    if OFFERS.replace(offers) {
        // The bits of a tensor that nobody else has are freed here, outside of the borrow.
        drop(OFFERED.take());
    }
}

/// Whether the op offers its operands, and what they are made of.
pub fn is_offering() -> bool {
    OFFERS.get()
}

/// Offers eight bits of a tensor to the node of the op. Other nodes may have read the same values at the node `origin`.
pub fn offer<B: AmpBackend>(tensor: &FloatTensor<Autodiff<B>>, origin: NodeId) {
    if !is_worth_it(tensor) {
        return;
    }
    let slot = Slot::<B>::find(origin).unwrap_or_default();
    slot.wait_at(origin);
    slot.wait_at(tensor.node.id);
    OFFERED.with_borrow_mut(|offered| offered.push(slot));
}

/// Offers a tensor that has the values of another one, in the same order, if that one was offered.
pub fn offer_as<B: AmpBackend>(tensor: &FloatTensor<Autodiff<B>>, other: NodeId) {
    if is_worth_it(tensor)
        && let Some(slot) = Slot::<B>::find(other)
    {
        slot.wait_at(tensor.node.id);
    }
}

/// Whether a node would keep eight bits of an operand.
pub(crate) fn is_offered<B: AmpBackend>(tensor: &FloatTensor<Autodiff<B>>) -> bool {
    is_offering() && Slot::<B>::find(tensor.node.id).is_some()
}

/// Whether a graph would keep the values of a tensor for a node that reads them, and eight bits would be fewer.
fn is_worth_it<B: AmpBackend>(tensor: &FloatTensor<Autodiff<B>>) -> bool {
    tensor.is_tracked()
        && fits::<B>(&tensor.primitive)
        && !Autodiff::<B>::float_is_require_grad(tensor)
        && !is_recomputed::<B>(tensor)
}

/// Whether a tensor is large enough, and of a dtype that eight bits can stand for.
fn fits<B: AmpBackend>(tensor: &FloatTensor<B>) -> bool {
    matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && tensor.shape().num_elements() >= LEAST.load(Ordering::Relaxed).max(1)
}

/// The eight bits that a graph keeps of a tensor.
#[derive(Clone, Debug)]
pub(crate) struct InEightBits<B: Backend> {
    slot: Arc<Slot<B>>,
    shape: Shape,
    dtype: FloatDType,
}

impl<B: AmpBackend> InEightBits<B> {
    /// Keeps an operand, if it was offered.
    pub(super) fn of(operand: &FloatTensor<Autodiff<B>>) -> Option<Self> {
        if !is_offering() {
            return None;
        }
        let slot = Slot::<B>::find(operand.node.id)?;
        Some(Self::at(slot, &operand.primitive))
    }

    fn at(slot: Arc<Slot<B>>, tensor: &FloatTensor<B>) -> Self {
        slot.lock().get_or_insert_with(|| {
            let bits = EightBits::of(tensor.clone());
            let (codes, scales) = bits.tensors();
            made::int::<B>(codes);
            made::float::<B>(scales);
            bits
        });
        Self {
            slot,
            shape: tensor.shape(),
            dtype: tensor.dtype().into(),
        }
    }

    /// Returns the values, in the shape and the dtype in which they were read.
    pub(super) fn values(&self) -> FloatTensor<B> {
        let bits = self.slot.lock().clone();
        let values = bits.expect("the bits are kept").values(self.dtype);
        if values.shape() == self.shape {
            values
        } else {
            B::float_reshape(values, self.shape.clone())
        }
    }
}

/// A tensor that an op keeps itself, such as its result.
#[derive(Clone, Debug)]
pub(crate) enum SavedTensor<B: Backend> {
    Whole(FloatTensor<B>),
    InEightBits(InEightBits<B>),
}

impl<B: AmpBackend> SavedTensor<B> {
    /// Keeps eight bits if the op offers its operands.
    pub(crate) fn of(tensor: FloatTensor<B>) -> Self {
        if is_offering() && fits::<B>(&tensor) {
            Self::InEightBits(InEightBits::at(Arc::default(), &tensor))
        } else {
            Self::Whole(tensor)
        }
    }

    /// Says at which node others find the tensor.
    pub(crate) fn is_at(&self, node: NodeId) {
        if let Self::InEightBits(kept) = self {
            kept.slot.wait_at(node);
        }
    }

    /// Returns the values.
    pub(crate) fn values(self) -> FloatTensor<B> {
        match self {
            Self::Whole(tensor) => tensor,
            Self::InEightBits(kept) => kept.values(),
        }
    }
}

/// Whether the backward pass computes the tensor again.
#[inline]
pub fn is_recomputed<B: Backend>(tensor: &FloatTensor<Autodiff<B>>) -> bool {
    is_memory_bound(&tensor.node.properties)
}

/// Whether the property of a node is burn-autodiff's `ComputingProperty::MemoryBound`.
///
/// burn-autodiff makes the property public, but not its type. What it prints begins with the name of the variant.
fn is_memory_bound(property: &impl fmt::Debug) -> bool {
    struct IsMemoryBound(bool);

    impl fmt::Write for IsMemoryBound {
        /// Sees the first word, and asks for no other.
        fn write_str(&mut self, word: &str) -> fmt::Result {
            self.0 = word == "MemoryBound";
            Err(fmt::Error)
        }
    }

    let mut answer = IsMemoryBound(false);
    let _ = write!(answer, "{property:?}");
    answer.0
}
