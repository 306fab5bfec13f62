//! Tensors that require a gradient themselves: the model's parameters.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use burn_amp_core::Dtype;
use burn_autodiff::{Autodiff, grads::Gradients};
use burn_backend::{Backend, FloatDType, Shape, tensor::FloatTensor};

use crate::dtype;

/// What all clones of a leaf share.
#[derive(Debug)]
pub struct Leaf<B: Backend> {
    /// The leaf in the dtype that it was last cast to. A leaf's values never change, so this is never stale.
    cast: Mutex<Option<(Dtype, FloatTensor<B>)>>,
}

impl<B: Backend> Leaf<B> {
    fn new() -> Self {
        Self {
            cast: Mutex::new(None),
        }
    }

    /// The leaf's values in dtype `to`, cast at the first use.
    ///
    /// A recurrent net uses its weights at every step, and each use keeps its operands for the backward pass.
    pub(crate) fn cast(&self, tensor: FloatTensor<B>, to: Dtype) -> FloatTensor<B> {
        let mut slot = self.cast.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some((dtype, cast)) if *dtype == to => cast.clone(),
            _ => {
                let cast = dtype::cast::<B>(tensor, to);
                *slot = Some((to, cast.clone()));
                cast
            }
        }
    }
}

/// The live leaves of one device; Burn's `Gradients` cannot be enumerated, so a backward pass looks them up from here.
#[derive(Debug)]
pub(crate) struct Leaves<B: Backend> {
    entries: Mutex<Entries<B>>,
    /// Stands in for the values of every leaf: looking a gradient up needs the node only.
    placeholder: OnceLock<FloatTensor<B>>,
}

#[derive(Debug)]
struct Entries<B: Backend> {
    list: Vec<Entry<B>>,
    /// The length at which dead entries are swept out.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry<B: Backend> {
    leaf: Weak<Leaf<B>>,
    /// The leaf's node without its values and without its claim on the graph.
    handle: FloatTensor<Autodiff<B>>,
    shape: Shape,
}

/// A leaf's gradient as a backward pass left it.
pub(crate) struct LeafGradient<B: Backend> {
    pub(crate) gradient: FloatTensor<B>,
    pub(crate) shape: Shape,
}

impl<B: Backend> Leaves<B> {
    const FIRST_SWEEP: usize = 64;

    pub(crate) fn new() -> Self {
        Self {
            entries: Mutex::new(Entries {
                list: Vec::new(),
                sweep_at: Self::FIRST_SWEEP,
            }),
            placeholder: OnceLock::new(),
        }
    }

    /// Enters a leaf; it leaves the books when its last clone is dropped.
    pub(crate) fn enroll(&self, tensor: &FloatTensor<Autodiff<B>>) -> Arc<Leaf<B>> {
        let leaf = Arc::new(Leaf::new());
        let mut handle = tensor.clone();
        handle.primitive = self.placeholder(&tensor.primitive);
        handle.rc = Arc::new(*tensor.rc);

        let entry = Entry {
            leaf: Arc::downgrade(&leaf),
            handle,
            shape: burn_backend::TensorMetadata::shape(&tensor.primitive),
        };
        let mut entries = self.lock();
        entries.list.push(entry);
        if entries.list.len() >= entries.sweep_at {
            entries.list.retain(|entry| entry.leaf.strong_count() > 0);
            entries.sweep_at = (2 * entries.list.len()).max(Self::FIRST_SWEEP);
        }
        leaf
    }

    /// The gradients of all live leaves that a backward pass reached, in the order in which the leaves were made.
    pub(crate) fn gradients(&self, grads: &Gradients) -> Vec<LeafGradient<B>> {
        let mut entries = self.lock();
        entries.list.retain(|entry| entry.leaf.strong_count() > 0);
        entries
            .list
            .iter()
            .filter_map(|entry| {
                Some(LeafGradient {
                    gradient: entry.handle.grad(grads)?,
                    shape: entry.shape.clone(),
                })
            })
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries<B>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn placeholder(&self, like: &FloatTensor<B>) -> FloatTensor<B> {
        self.placeholder
            .get_or_init(|| B::float_zeros([1].into(), &B::float_device(like), FloatDType::F32))
            .clone()
    }
}
