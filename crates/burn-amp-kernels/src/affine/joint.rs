//! The node in which the gradients of all readers of a tensor come together.

use std::{mem, sync::Arc};

use burn_autodiff::{NodeId, grads::Gradients, ops::Ops};

use super::term::{Term, has_layout};
use crate::{graph::AtNode, prelude::*};

/// What waits for the backward pass of its node.
#[derive(Debug, Default)]
struct Gathered<B: AmpBackend> {
    gradients: Vec<FloatTensor<B>>,
    terms: Vec<Term<B>>,
}

type Waiting<B> = AtNode<Gathered<B>>;

/// The most gradients that wait for their node's backward pass, such as those of a recurrent net's four gates.
const MOST_GRADIENTS: usize = 4;

impl<B: AmpBackend> Gathered<B> {
    /// Adds a gradient. So many are added up at once that they take no more bytes than they do in F32.
    fn push(&mut self, gradient: FloatTensor<B>) {
        self.gradients.push(gradient);
        if self.gradients.len() > MOST_GRADIENTS {
            let gradients = mem::take(&mut self.gradients);
            self.gradients = vec![Term::<B>::sum(gradients, Vec::new(), FloatDType::F32)];
        }
    }
}

/// Adds a term to the gradient of an operand, if it is wanted: at once, or when all terms are known if the node of the
/// operand waits for them.
pub(super) fn contribute<B: AmpBackend, const N: usize>(
    term: Term<B>,
    operand: usize,
    pass: &mut Pass<'_, B, N>,
) {
    let Some(node) = pass.parent(operand) else {
        return;
    };
    match Waiting::<B>::find(node) {
        Some(waiting) => waiting.lock().terms.push(term),
        None => {
            let plus = pass.known(operand, term.any().clone());
            let plus = plus.into_iter().collect();
            let sum = Term::<B>::sum(plus, vec![term], FloatDType::F32);
            pass.grads.register::<B>(node, sum);
        }
    }
}

/// Adds a gradient to that of an operand whose node waits for all of them, and says whether it does.
pub(super) fn pass_to_joint<B: AmpBackend, const N: usize>(
    gradient: &FloatTensor<B>,
    operand: usize,
    pass: &Pass<'_, B, N>,
) -> bool {
    let waiting = pass.parent(operand).and_then(Waiting::<B>::find);
    if let Some(waiting) = &waiting {
        waiting.lock().push(gradient.clone());
    }
    waiting.is_some()
}

/// Returns the same values, in a node of the graph that waits for the gradients of all their readers: it adds them in F32
/// and hands the sum on in the dtype of the tensor. Chains and sums of the result are computed in one pass there. A tensor
/// whose own node waits is returned as it is.
pub fn joined<B: AmpBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    if !x.is_tracked() || Waiting::<B>::find(x.node.id).is_some() {
        return x;
    }
    let joint = Joint::<B>::new(&x.primitive);
    let again = |[x]: [FloatTensor<B>; 1]| x;
    let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, again);
    let joined = node.finish(x.primitive, |_| joint.clone());
    joint.waits_at(joined.node.id);
    joined
}

/// Hands a gradient in any dtype to the first operand of a node, in the operand's `dtype`: when all gradients are known if that
/// is a [`joined`] one. A gradient of images is added to those that are known in one pass, in its own order of memory.
pub fn pass_on<B: AmpBackend, S, const N: usize>(
    gradient: FloatTensor<B>,
    ops: &Ops<S, N>,
    dtype: FloatDType,
    grads: &mut Gradients,
) {
    let Some(parent) = &ops.parents[0] else {
        return;
    };
    if let Some(waiting) = Waiting::<B>::find(parent.id) {
        return waiting.lock().push(gradient);
    }
    let gradient = if has_layout(&gradient) {
        let mut operand = FloatTensor::<Autodiff<B>>::new(gradient.clone());
        operand.node = parent.clone();
        let known = grads.remove::<B>(&operand);
        Term::<B>::sum(
            known.into_iter().chain([gradient]).collect(),
            Vec::new(),
            dtype,
        )
    } else {
        cast::<B>(gradient, dtype.into())
    };
    grads.register::<B>(parent.id, seen::<B>(gradient));
}

/// What a node saves that waits for the gradients of its result's readers in other dtypes, and for their terms.
#[derive(Clone, Debug)]
pub(crate) struct Joint<B: AmpBackend> {
    /// The dtype of the result.
    dtype: FloatDType,
    waiting: Arc<Waiting<B>>,
}

impl<B: AmpBackend> Joint<B> {
    /// Starts gathering gradients for the node that will produce `result`.
    pub(crate) fn new(result: &FloatTensor<B>) -> Self {
        Self {
            dtype: result.dtype().into(),
            waiting: Arc::default(),
        }
    }

    /// The dtype of the result, in which the sum of its gradients is stored.
    pub(super) fn dtype(&self) -> FloatDType {
        self.dtype
    }

    /// From now on the gradients of this node's readers come here.
    pub(crate) fn waits_at(&self, node: NodeId) {
        self.waiting.wait_at(node);
    }

    /// Returns the sum of the gradients: one that is the only one in its own dtype, others in that of the result.
    pub(crate) fn gradient<const N: usize>(&self, pass: &mut Pass<'_, B, N>) -> FloatTensor<B> {
        let (mut gradients, terms) = self.gathered(pass);
        match gradients.len() {
            1 if terms.is_empty() => gradients.remove(0),
            _ => Term::<B>::sum(gradients, terms, self.dtype),
        }
    }

    /// Returns the gradients as two terms of their sum, or as one if that is the only one.
    pub(super) fn terms<const N: usize>(
        &self,
        pass: &mut Pass<'_, B, N>,
    ) -> (FloatTensor<B>, Option<FloatTensor<B>>) {
        let (mut gradients, terms) = self.gathered(pass);
        let last = match gradients.len() {
            0 | 1 => None,
            _ if terms.is_empty() => gradients.pop(),
            _ => None,
        };
        match gradients.len() {
            1 if terms.is_empty() => (gradients.remove(0), last),
            _ => {
                let dtype = last.as_ref().map_or(self.dtype, |_| FloatDType::F32);
                (Term::<B>::sum(gradients, terms, dtype), last)
            }
        }
    }

    /// The gradients, and what is to be computed of them.
    fn gathered<const N: usize>(
        &self,
        pass: &mut Pass<'_, B, N>,
    ) -> (Vec<FloatTensor<B>>, Vec<Term<B>>) {
        let Gathered { gradients, terms } = mem::take(&mut *self.waiting.lock());
        let any = gradients.first().or_else(|| Some(terms.first()?.any()));
        let Some(any) = any.cloned() else {
            let only_one = cast::<B>(pass.gradient(), self.dtype.into());
            return (vec![only_one], terms);
        };
        let registered = pass.gradient_if_any(any);
        (registered.into_iter().chain(gradients).collect(), terms)
    }
}

impl<B: AmpBackend> Node<B> for Joint<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let sum = self.gradient(&mut pass);
        pass_on::<B, _, N>(sum, &pass.ops, self.dtype, pass.grads);
    }
}
