//! The node in which the gradients of all readers of a tensor come together.

use std::{fmt, mem, sync::Arc};

use burn_autodiff::{Autodiff, NodeId, checkpoint::strategy::CheckpointStrategy, grads::Gradients};
use burn_backend::{Backend, FloatDType, TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::{AtNode, Node, Pass, Recording, Tracked};
use crate::{flushed::seen, widen::cast};

/// What a reader contributes to the gradient of a tensor, in place of a gradient: several contributions may be computed
/// in one pass.
pub(crate) trait Term<B: Backend>: Sized + Send + 'static {
    /// Computes the sum of gradients and terms in F32. Only the last pass rounds to `dtype`.
    fn sum(gradients: Vec<FloatTensor<B>>, terms: Vec<Self>, dtype: FloatDType) -> FloatTensor<B>;
}

/// What waits for the backward pass of its node.
struct Gathered<B: Backend, T> {
    gradients: Vec<FloatTensor<B>>,
    terms: Vec<T>,
}

type Waiting<B, T> = AtNode<Gathered<B, T>>;

impl<B: Backend, T> Default for Gathered<B, T> {
    fn default() -> Self {
        Self {
            gradients: Vec::new(),
            terms: Vec::new(),
        }
    }
}

/// The most gradients that wait for their node's backward pass, such as those of a recurrent net's four gates.
const MOST_GRADIENTS: usize = 4;

impl<B: Backend, T: Term<B>> Gathered<B, T> {
    /// Adds a gradient. So many are added up at once that they take no more bytes than they do in F32.
    fn push(&mut self, gradient: FloatTensor<B>) {
        self.gradients.push(gradient);
        if self.gradients.len() > MOST_GRADIENTS {
            let gradients = mem::take(&mut self.gradients);
            self.gradients = vec![T::sum(gradients, Vec::new(), FloatDType::F32)];
        }
    }
}

/// Adds a term to the gradient of an operand, if it is wanted: at once, or when all terms are known if the node of the
/// operand waits for them.
pub(crate) fn contribute<B: Backend, T: Term<B>, const N: usize>(
    term: T,
    operand: usize,
    device: &B::Device,
    pass: &mut Pass<'_, B, N>,
) {
    let Some(parent) = &pass.ops.parents[operand] else {
        return;
    };
    let mut to = placeholder::<B>(device);
    to.node = parent.clone();
    match Waiting::<B, T>::find(to.node.id) {
        Some(waiting) => waiting.lock().terms.push(term),
        None => {
            let plus = pass.grads.remove::<B>(&to).into_iter().collect();
            let sum = T::sum(plus, vec![term], FloatDType::F32);
            pass.grads.register::<B>(to.node.id, sum);
        }
    }
}

/// Makes a tensor to be given another one's node: burn-autodiff finds the gradient that a node already has by a tensor.
fn placeholder<B: Backend>(device: &B::Device) -> FloatTensor<Autodiff<B>> {
    Autodiff::<B>::float_empty([1].into(), device, FloatDType::F32)
}

/// What a node saves that waits for the gradients of its result's readers in other dtypes, and for their terms.
pub(crate) struct Joint<B: Backend, T> {
    /// The dtype of the result.
    dtype: FloatDType,
    device: B::Device,
    waiting: Arc<Waiting<B, T>>,
}

impl<B: Backend, T: Term<B>> Joint<B, T> {
    /// Returns the same values, in a node that waits for the gradients of all their readers: it adds them in F32 and hands
    /// the sum on in the dtype of the tensor. A tensor whose own node waits is returned as it is.
    pub(crate) fn of<C: CheckpointStrategy>(x: Tracked<B, C>) -> Tracked<B, C> {
        if !x.is_tracked() || Waiting::<B, T>::find(x.node.id).is_some() {
            return x;
        }
        let joint = Self::new(&x.primitive);
        let again = |[x]: [FloatTensor<B>; 1]| x;
        let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, again);
        let joined = node.finish(x.primitive, |_| joint.clone());
        joint.waits_at(joined.node.id);
        joined
    }

    /// Starts gathering gradients for the node that will produce `result`.
    pub(crate) fn new(result: &FloatTensor<B>) -> Self {
        Self {
            dtype: result.dtype().into(),
            device: B::float_device(result),
            waiting: Arc::default(),
        }
    }

    /// From now on the gradients of this node's readers come here.
    pub(crate) fn waits_at(&self, node: NodeId) {
        self.waiting.wait_at(node);
    }

    /// Hands a gradient in any dtype to a node whose result is `dtype`: when all gradients are known, if it waits for them.
    pub(crate) fn pass_on(
        gradient: FloatTensor<B>,
        to: NodeId,
        dtype: FloatDType,
        grads: &mut Gradients,
    ) {
        match Waiting::<B, T>::find(to) {
            Some(waiting) => waiting.lock().push(gradient),
            None => grads.register::<B>(to, seen::<B>(cast::<B>(gradient, dtype.into()))),
        }
    }

    /// Returns the sum of the gradients: one that is the only one in its own dtype, others in that of the result.
    pub(crate) fn gradient<const N: usize>(&self, pass: &mut Pass<'_, B, N>) -> FloatTensor<B> {
        let Gathered {
            mut gradients,
            terms,
        } = mem::take(&mut *self.waiting.lock());
        let mut this = placeholder::<B>(&self.device);
        this.node = pass.ops.node.clone();
        let registered = pass.grads.remove::<B>(&this);
        if registered.is_none() && terms.is_empty() && gradients.len() == 1 {
            return gradients.remove(0);
        }
        let gradients = registered.into_iter().chain(gradients).collect();
        T::sum(gradients, terms, self.dtype)
    }
}

impl<B: Backend, T> Clone for Joint<B, T> {
    fn clone(&self) -> Self {
        Self {
            dtype: self.dtype,
            device: self.device.clone(),
            waiting: self.waiting.clone(),
        }
    }
}

impl<B: Backend, T> fmt::Debug for Joint<B, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Joint").field(&self.dtype).finish()
    }
}

impl<B: Backend, T: Term<B>> Node<B> for Joint<B, T> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let sum = self.gradient(&mut pass);
        if let Some(parent) = pass.parent(0) {
            Self::pass_on(sum, parent, self.dtype, pass.grads);
        }
    }
}
