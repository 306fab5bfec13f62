//! Tensors that require a gradient themselves: the model's parameters.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use burn_amp_core::Dtype;
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::NoCheckpointing},
    grads::Gradients,
    ops::{Backward, Ops},
};
use burn_backend::{
    Backend, FloatDType, Shape, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor,
};

use crate::{dtype, scaler::Overflow};

/// What all clones of a leaf share.
#[derive(Debug)]
pub struct Leaf<B: Backend> {
    uses: Mutex<Uses<B>>,
}

#[derive(Debug)]
struct Uses<B: Backend> {
    /// The leaf in the dtype that it was last cast to. A leaf's values never change, so this is never stale.
    cast: Option<(Dtype, FloatTensor<B>)>,
    /// The backward pass that is to come at the last use, and the level of the cast for that use.
    last: Option<(u64, usize)>,
}

impl<B: Backend> Leaf<B> {
    /// A leaf that no backward pass looks up.
    pub(crate) fn unlisted() -> Arc<Self> {
        Arc::new(Self {
            uses: Mutex::new(Uses {
                cast: None,
                last: None,
            }),
        })
    }

    /// The leaf's values in dtype `to`, cast at the first use.
    ///
    /// A recurrent net uses its weights at every step, and each use keeps its operands for the backward pass.
    pub(crate) fn cast(&self, tensor: FloatTensor<B>, to: Dtype) -> FloatTensor<B> {
        let mut uses = self.lock();
        match &uses.cast {
            Some((dtype, cast)) if *dtype == to => cast.clone(),
            _ => {
                let cast = dtype::cast::<B>(tensor, to);
                uses.cast = Some((to, cast.clone()));
                cast
            }
        }
    }

    /// The level above which a cast of this leaf stands, for a use beside operands of level `beside` in the graph that
    /// backward pass number `pass` will consume.
    ///
    /// A backward pass runs level by level from the top. A leaf is at the bottom, so casts right above it would run last
    /// and the pass would hold the gradients of all uses until then. Right below the op that uses it, and above the use
    /// before, a cast runs at once and its gradient is added to the leaf's.
    pub(crate) fn level(&self, pass: u64, beside: usize) -> usize {
        /// A backward pass allocates a list for every level of its graph.
        const HIGHEST: usize = 4096;

        let mut uses = self.lock();
        let above_the_last = match uses.last {
            Some((last_pass, level)) if last_pass == pass && level < HIGHEST => level + 1,
            _ => 0,
        };
        let level = beside.max(above_the_last);
        uses.last = Some((pass, level));
        level
    }

    fn lock(&self) -> MutexGuard<'_, Uses<B>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The live leaves of one device; Burn's `Gradients` cannot be enumerated, so a backward pass looks them up from here.
#[derive(Debug)]
pub(crate) struct Leaves<B: Backend> {
    entries: Mutex<Entries<B>>,
    /// Stands in for values where only the node counts.
    placeholder: OnceLock<FloatTensor<B>>,
    /// Untracked nodes, one of each level.
    ladder: Mutex<Vec<FloatTensor<Autodiff<B>>>>,
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
    shape: Shape,
    /// The leaf's node without its values.
    handle: FloatTensor<Autodiff<B>>,
}

impl<B: Backend> LeafGradient<B> {
    /// What to say of it if it is not finite.
    pub(crate) fn overflow(&self, index: usize) -> Overflow {
        Overflow {
            index,
            shape: self.shape.clone(),
            dtype: dtype::of(&self.gradient),
        }
    }

    /// Puts another tensor in the gradient's place.
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
            placeholder: OnceLock::new(),
            ladder: Mutex::new(Vec::new()),
        }
    }

    /// An untracked node of level `level`: as a parent it lifts the level of its child and is no part of its graph.
    pub(crate) fn node_of_level(
        &self,
        level: usize,
        like: &FloatTensor<B>,
    ) -> FloatTensor<Autodiff<B>> {
        let mut ladder = self.ladder.lock().unwrap_or_else(PoisonError::into_inner);
        while ladder.len() <= level {
            let placeholder = self.placeholder(like);
            let mut rung = match ladder.last() {
                None => {
                    let device = B::float_device(like);
                    Autodiff::<B>::float_zeros([1].into(), &device, FloatDType::F32)
                }
                Some(below) => Rung
                    .prepare::<NoCheckpointing>([below.node.clone()])
                    .compute_bound()
                    .stateless(placeholder),
            };
            rung.rc = Arc::new(*rung.rc);
            ladder.push(rung);
        }
        ladder[level].clone()
    }

    /// Enters a leaf; it leaves the books when its last clone is dropped.
    pub(crate) fn enroll(&self, tensor: &FloatTensor<Autodiff<B>>) -> Arc<Leaf<B>> {
        let leaf = Leaf::unlisted();
        let mut handle = tensor.clone();
        handle.primitive = self.placeholder(&tensor.primitive);
        handle.rc = Arc::new(*tensor.rc);

        let entry = Entry {
            leaf: Arc::downgrade(&leaf),
            handle,
            shape: tensor.primitive.shape(),
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
                    handle: entry.handle.clone(),
                })
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Entries<B>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn placeholder(&self, like: &FloatTensor<B>) -> FloatTensor<B> {
        self.placeholder
            .get_or_init(|| B::float_zeros([1].into(), &B::float_device(like), FloatDType::F32))
            .clone()
    }
}

/// See [`Leaves::node_of_level`].
#[derive(Debug)]
struct Rung;

impl<B: Backend> Backward<B, 1> for Rung {
    type State = ();

    fn backward(self, _: Ops<(), 1>, _: &mut Gradients, _: &mut Checkpointer) {
        unreachable!("a rung is untracked, so no backward pass visits it");
    }
}
