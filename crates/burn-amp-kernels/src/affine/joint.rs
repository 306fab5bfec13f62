//! The node in which the gradients of all chains and sums of one tensor come together.

use std::{fmt, mem, sync::Arc};

use burn_autodiff::{NodeId, grads::Gradients};
use burn_backend::ops::FloatTensorOps;

use super::term::{Term, gradient};
use crate::{graph::AtNode, prelude::*};

/// Returns the same values, in a node of the graph that waits for the gradients of all their readers: it adds them in F32
/// and hands the sum on in the dtype of the tensor. Chains and sums of the result are computed in one pass there. A tensor
/// whose own node waits is returned as it is.
pub fn joined<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    if !x.is_tracked() || Waiting::<B>::find(x.node.id).is_some() {
        return x;
    }
    let joint = Joint::new(&x.primitive);
    let again = |[x]: [FloatTensor<B>; 1]| x;
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, again);
    let joined = node.finish(x.primitive, |_| joint.clone());
    joint.waits_at(&joined);
    joined
}

/// Adds a term to the gradient of an operand, if it is wanted: at once, or when all terms are known if the node of the
/// operand waits for them.
pub(super) fn contribute<B: AmpBackend, const N: usize>(
    term: Term<B>,
    operand: usize,
    device: &B::Device,
    pass: &mut Pass<'_, B, N>,
) {
    let Some(parent) = &pass.ops.parents[operand] else {
        return;
    };
    let mut to = placeholder::<B>(device);
    to.node = parent.clone();
    match Waiting::<B>::find(to.node.id) {
        Some(waiting) => waiting.lock().push(term),
        None => {
            let plus = pass.grads.remove::<B>(&to);
            let sum = gradient::<B>(vec![term], plus, FloatDType::F32);
            pass.grads.register::<B>(to.node.id, sum);
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
    match Waiting::<B>::find(to) {
        Some(waiting) => push_gradient::<B>(&mut waiting.lock(), gradient),
        None => grads.register::<B>(to, seen::<B>(cast::<B>(gradient, dtype.into()))),
    }
}

/// Makes a tensor to be given another one's node: burn-autodiff finds the gradient that a node already has by a tensor.
fn placeholder<B: AmpBackend>(device: &B::Device) -> FloatTensor<Autodiff<B>> {
    Autodiff::<B>::float_empty([1].into(), device, FloatDType::F32)
}

/// The most gradients that wait for their node's backward pass, such as those of a recurrent net's four gates.
const MOST_GRADIENTS: usize = 4;

/// The terms that wait for their node's backward pass.
type Waiting<B> = AtNode<Vec<Term<B>>>;

/// Adds a gradient to the terms. So many are added up at once that they take no more bytes than they do in F32.
fn push_gradient<B: AmpBackend>(terms: &mut Vec<Term<B>>, gradient: FloatTensor<B>) {
    terms.push(Term::Gradient(gradient));
    let is_gradient = |term: &Term<B>| matches!(term, Term::Gradient(_));
    if terms.iter().filter(|term| is_gradient(term)).count() > MOST_GRADIENTS {
        let (gradients, others) = mem::take(terms).into_iter().partition(is_gradient);
        let sum = self::gradient::<B>(gradients, None, FloatDType::F32);
        *terms = others;
        terms.push(Term::Gradient(sum));
    }
}

/// What a node saves that waits for the gradients of its result's readers in other dtypes.
#[derive(Clone)]
pub(crate) struct Joint<B: AmpBackend> {
    /// The dtype of the result.
    dtype: FloatDType,
    device: B::Device,
    waiting: Arc<Waiting<B>>,
}

impl<B: AmpBackend> Joint<B> {
    /// Starts gathering gradients for the node that will produce `result`.
    pub(crate) fn new(result: &FloatTensor<B>) -> Self {
        Self {
            dtype: result.dtype().into(),
            device: B::float_device(result),
            waiting: Arc::new(AtNode::default()),
        }
    }

    /// From now on the gradients of this tensor's readers come here.
    pub(crate) fn waits_at(&self, result: &FloatTensor<Autodiff<B>>) {
        self.waiting.wait_at(result.node.id);
    }

    /// Returns the sum of the gradients: one that is the only one in its own dtype, others in that of the result.
    pub(crate) fn gradient<const N: usize>(&self, pass: &mut Pass<'_, B, N>) -> FloatTensor<B> {
        let mut terms = mem::take(&mut *self.waiting.lock());
        let mut this = placeholder::<B>(&self.device);
        this.node = pass.ops.node.clone();
        match (pass.grads.remove::<B>(&this), terms.pop()) {
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

impl<B: AmpBackend> Node<B> for Joint<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let sum = self.gradient(&mut pass);
        if let Some(parent) = pass.parent(0) {
            pass_on::<B>(sum, parent, self.dtype, pass.grads);
        }
    }
}
