//! The registry of live leaves: Burn's `Gradients` cannot be enumerated, so a backward pass looks its leaves up here.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use burn_amp_core::Precision;
use burn_amp_kernels::names::device_of;
use burn_autodiff::{Autodiff, grads::Gradients};
use burn_backend::{Backend, FloatDType, Shape, TensorMetadata, tensor::FloatTensor};
use parking_lot::Mutex;

use super::{leaf::Leaf, origin::Origin};
use crate::{param_name::ParamName, precision};

/// The live leaves of one device.
#[derive(Debug)]
pub struct Leaves<B: Backend> {
    entries: Mutex<Entries<B>>,
    /// The number of backward passes so far, for reports.
    passes: AtomicU64,
    /// Replaces the values of a tensor of which only the graph node is needed.
    placeholder: OnceLock<FloatTensor<B>>,
}

#[derive(Debug)]
struct Entries<B: Backend> {
    list: Vec<Entry<B>>,
    /// The length at which the entries of dropped leaves are removed.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry<B: Backend> {
    leaf: Weak<Leaf<B>>,
    /// The leaf's node without its values. It does not keep the graph alive.
    handle: FloatTensor<Autodiff<B>>,
    shape: Shape,
    dtype: Precision,
}

/// The gradient of a leaf, as a backward pass left it.
pub(crate) struct LeafGradient<B: Backend> {
    pub(crate) gradient: FloatTensor<B>,
    pub(crate) shape: Shape,
    /// Whether the leaf is stored in half precision.
    pub(crate) is_of_low: bool,
    /// The name of the parameter.
    pub(crate) name: ParamName,
    /// The leaf's node without its values.
    handle: FloatTensor<Autodiff<B>>,
}

impl<B: Backend> LeafGradient<B> {
    pub(crate) fn dtype(&self) -> Precision {
        precision::of(&self.gradient)
    }

    /// Stores another tensor as this leaf's gradient.
    pub(crate) fn replace(&self, grads: &mut Gradients, gradient: FloatTensor<B>) {
        self.handle.grad_replace(grads, gradient);
    }
}

impl<B: Backend> Leaves<B> {
    const FIRST_SWEEP: usize = 64;

    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::new(Entries {
                list: Vec::new(),
                sweep_at: Self::FIRST_SWEEP,
            }),
            passes: AtomicU64::new(0),
            placeholder: OnceLock::new(),
        }
    }

    /// Returns the number of backward passes so far.
    pub(crate) fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// Counts a backward pass.
    pub(crate) fn count_pass(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the node of a leaf without its values and without a claim on the graph.
    pub(crate) fn handle(&self, leaf: &FloatTensor<Autodiff<B>>) -> FloatTensor<Autodiff<B>> {
        let mut handle = leaf.clone();
        handle.primitive = self.placeholder(&leaf.primitive);
        handle.rc = Arc::new(*leaf.rc);
        handle
    }

    /// Enters a leaf. Its entry no longer counts once its last clone is dropped.
    pub(super) fn enroll(
        &self,
        tensor: &FloatTensor<Autodiff<B>>,
        origin: Arc<Origin>,
    ) -> Arc<Leaf<B>> {
        let leaf = Arc::new(Leaf::new(origin));
        let entry = Entry {
            leaf: Arc::downgrade(&leaf),
            handle: self.handle(tensor),
            shape: tensor.primitive.shape(),
            dtype: precision::of(&tensor.primitive),
        };
        let mut entries = self.entries.lock();
        entries.list.push(entry);
        if entries.list.len() >= entries.sweep_at {
            entries.list.retain(|entry| entry.leaf.strong_count() > 0);
            entries.sweep_at = (2 * entries.list.len()).max(Self::FIRST_SWEEP);
        }
        leaf
    }

    /// Returns the gradients of all live leaves that a backward pass reached, in the order in which the leaves were
    /// made.
    pub(crate) fn gradients(&self, grads: &Gradients) -> Vec<LeafGradient<B>> {
        let mut entries = self.entries.lock();
        entries.list.retain(|entry| entry.leaf.strong_count() > 0);
        entries
            .list
            .iter()
            .filter_map(|entry| {
                Some(LeafGradient {
                    gradient: entry.handle.grad(grads)?,
                    shape: entry.shape.clone(),
                    is_of_low: entry.dtype.is_low(),
                    name: entry.leaf.upgrade()?.origin().name().clone(),
                    handle: entry.handle.clone(),
                })
            })
            .collect()
    }

    fn placeholder(&self, like: &FloatTensor<B>) -> FloatTensor<B> {
        self.placeholder
            .get_or_init(|| B::float_zeros([1].into(), &device_of::<B>(like), FloatDType::F32))
            .clone()
    }
}
