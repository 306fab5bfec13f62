//! The node in which the gradients of all chains and sums of one tensor come together.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    marker::PhantomData,
    mem,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn_backend::{FloatDType, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::term::{Term, gradient};
use crate::{AmpBackend, widen::cast};

/// Returns the same values, in a node of the graph that waits for the gradients of all their readers: it adds them in F32
/// and hands the sum on in the dtype of the tensor. Chains and sums of the result are computed in one pass there. A tensor
/// whose own node waits is returned as it is.
pub fn joined<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    if !x.is_tracked() || Waiting::<B>::at(x.node.id).is_some() {
        return x;
    }
    let joint = Joint::new(&x.primitive);
    match JointNode
        .prepare::<C>([x.node.clone()])
        .memory_bound()
        .retro_forward(Same::<B> {
            of: x.node.id,
            backend: PhantomData,
        })
        .parents([&x])
        .stateful()
    {
        OpsKind::Tracked(prep) => {
            let joined = prep.finish(joint.clone(), x.primitive);
            joint.waits_at(&joined);
            joined
        }
        OpsKind::UnTracked(prep) => prep.finish(x.primitive),
    }
}

/// Adds a term to the gradient of the node of a tensor, made by [`placeholder`]: at once, or when all terms are known if
/// the node waits for them.
pub(super) fn contribute<B: AmpBackend>(
    term: Term<B>,
    to: FloatTensor<Autodiff<B>>,
    grads: &mut Gradients,
) {
    match Waiting::<B>::at(to.node.id) {
        Some(waiting) => lock(&waiting.terms).push(term),
        None => {
            let plus = grads.remove::<B>(&to);
            let sum = gradient::<B>(vec![term], plus, FloatDType::F32);
            grads.register::<B>(to.node.id, sum);
        }
    }
}

/// Hands the gradient of a tensor's copy in another dtype to the node of the tensor, in the tensor's `dtype`: when all
/// gradients are known if the node is a [`joined`] one.
pub fn pass_on<B: AmpBackend>(
    gradient: FloatTensor<B>,
    to: NodeId,
    dtype: FloatDType,
    grads: &mut Gradients,
) {
    match Waiting::<B>::at(to) {
        Some(waiting) => waiting.push_gradient(gradient),
        None => grads.register::<B>(to, cast::<B>(gradient, dtype.into())),
    }
}

/// Makes a tensor to be given another one's node: burn-autodiff finds the gradient that a node already has by a tensor.
pub(super) fn placeholder<B: AmpBackend>(device: &B::Device) -> FloatTensor<Autodiff<B>> {
    Autodiff::<B>::float_empty([1].into(), device, FloatDType::F32)
}

/// The most gradients that wait for their node's backward pass, such as those of a recurrent net's four gates.
const MOST_GRADIENTS: usize = 4;

/// The terms that wait for their node's backward pass.
struct Waiting<B: AmpBackend> {
    node: OnceLock<NodeId>,
    terms: Mutex<Vec<Term<B>>>,
}

/// All [`Waiting`] by their node, as a reader of the node's result knows it by its id alone.
static WAITING: LazyLock<Mutex<ById>> = LazyLock::new(Mutex::default);

type ById = HashMap<NodeId, Weak<dyn Any + Send + Sync>>;

impl<B: AmpBackend> Waiting<B> {
    fn waits_at(self: &Arc<Self>, node: NodeId) {
        let this: Arc<dyn Any + Send + Sync> = self.clone();
        lock(&WAITING).insert(node, Arc::downgrade(&this));
        // It is set once, by who made the node.
        let _ = self.node.set(node);
    }

    /// Adds a gradient. So many are added up at once that they take no more bytes than they do in F32.
    fn push_gradient(&self, gradient: FloatTensor<B>) {
        let mut terms = lock(&self.terms);
        terms.push(Term::Gradient(gradient));
        let is_gradient = |term: &Term<B>| matches!(term, Term::Gradient(_));
        if terms.iter().filter(|term| is_gradient(term)).count() > MOST_GRADIENTS {
            let (gradients, others) = mem::take(&mut *terms).into_iter().partition(is_gradient);
            let sum = self::gradient::<B>(gradients, None, FloatDType::F32);
            *terms = others;
            terms.push(Term::Gradient(sum));
        }
    }

    fn at(node: NodeId) -> Option<Arc<Self>> {
        let waiting = lock(&WAITING).get(&node).and_then(Weak::upgrade);
        waiting?.downcast().ok()
    }
}

impl<B: AmpBackend> Default for Waiting<B> {
    fn default() -> Self {
        Self {
            node: OnceLock::new(),
            terms: Mutex::default(),
        }
    }
}

impl<B: AmpBackend> Drop for Waiting<B> {
    fn drop(&mut self) {
        if let Some(node) = self.node.get() {
            lock(&WAITING).remove(node);
        }
    }
}

/// Terms are pushed and taken whole, so they are sound after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct JointNode;

/// What a node saves that waits for the gradients of its result's readers in other dtypes.
#[derive(Clone)]
pub(crate) struct Joint<B: AmpBackend> {
    /// The dtype of the result.
    dtype: FloatDType,
    device: B::Device,
    waiting: Arc<Waiting<B>>,
}

impl<B: AmpBackend> Joint<B> {
    /// That of the node whose result will be this tensor.
    pub(crate) fn new(result: &FloatTensor<B>) -> Self {
        Self {
            dtype: result.dtype().into(),
            device: B::float_device(result),
            waiting: Arc::default(),
        }
    }

    /// From now on the gradients of this tensor's readers come here.
    pub(crate) fn waits_at(&self, result: &FloatTensor<Autodiff<B>>) {
        self.waiting.waits_at(result.node.id);
    }

    /// Returns the sum of the gradients: one that is the only one in its own dtype, others in that of the result.
    pub(crate) fn gradient<S, const N: usize>(
        &self,
        ops: &Ops<S, N>,
        grads: &mut Gradients,
    ) -> FloatTensor<B> {
        let mut terms = mem::take(&mut *lock(&self.waiting.terms));
        let mut this = placeholder::<B>(&self.device);
        this.node = ops.node.clone();
        match (grads.remove::<B>(&this), terms.pop()) {
            (None, Some(Term::Gradient(only))) if terms.is_empty() => only,
            (plus, last) => {
                terms.extend(last);
                gradient::<B>(terms, plus, self.dtype)
            }
        }
    }
}

impl<B: AmpBackend> fmt::Debug for Joint<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joint").field(&self.dtype).finish()
    }
}

impl<B: AmpBackend> Backward<B, 1> for JointNode {
    type State = Joint<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let sum = ops.state.gradient(&ops, grads);
        let [parent] = ops.parents;
        if let Some(parent) = parent {
            pass_on::<B>(sum, parent.id, ops.state.dtype, grads);
        }
    }
}

/// Hands the values on when Burn's gradient checkpointing computes them again.
#[derive(Debug)]
struct Same<B> {
    of: NodeId,
    backend: PhantomData<B>,
}

impl<B: AmpBackend> RetroForward for Same<B> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let values = states.get_state::<FloatTensor<B>>(&self.of);
        states.save(out, values);
    }
}
