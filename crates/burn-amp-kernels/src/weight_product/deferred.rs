//! Gradients of a weight's further uses in a pass, computed together.
//!
//! A recurrent net uses its weights at every time step. Each use has a gradient `xᵀ g` of the size of the weights, which
//! is added to those of the uses before: a product of few rows, and a sum that moves more bytes than its operands have.
//! So the node of such a product leaves `x` and `g` with the pass. The rows of several uses are put below one another, and one
//! product gives the sum of their gradients.

use std::{any::Any, cell::RefCell, mem};

use burn_autodiff::{NodeId, grads::Gradients};
use burn_backend::{DType, TensorMetadata, tensor::FloatTensor};

use crate::AmpBackend;

/// The most uses whose gradients are computed together.
const MOST_USES: usize = 16;

/// Whether it moves fewer bytes to copy `rows` rows of both operands in low precision than to add a further gradient of
/// shape `[k, n]` in F32: the copies take 4 bytes per element, the product and the sum 16.
pub fn is_worth_deferring(rows: usize, [k, n]: [usize; 2]) -> bool {
    rows * (k + n) <= 4 * k * n
}

/// The operands of the gradients of a weight and a bias: `xᵀ grad`, and the sums of the columns of `grad`.
#[derive(Clone, Debug)]
pub(super) struct Operands<B: AmpBackend> {
    pub(super) x: FloatTensor<B>,
    pub(super) grad: FloatTensor<B>,
    /// The node of the bias, if it is a leaf of the graph, so that no step of the pass waits for its gradient.
    pub(super) bias: Option<NodeId>,
}

impl<B: AmpBackend> Operands<B> {
    /// Registers the gradients now. That of the weight goes to the node `weight`.
    pub(super) fn register(self, weight: NodeId, grads: &mut Gradients) {
        register(vec![Uses::of(weight, self)], grads);
    }

    /// Registers the gradients, that of the weight to the node of its leaf, by the end of the pass that [`together`] runs.
    /// Outside of one they are registered now, as they are if it is not [worth it](is_worth_deferring).
    pub(super) fn register_later(self, leaf: NodeId, grads: &mut Gradients) {
        let rows = self.grad.shape()[0];
        if is_worth_deferring(rows, self.gradient()) {
            register::<B>(collect(leaf, self), grads);
        } else {
            self.register(leaf, grads);
        }
    }

    /// The shape of the weight's gradient.
    fn gradient(&self) -> [usize; 2] {
        [&self.x, &self.grad].map(|tensor| tensor.shape()[1])
    }
}

/// Runs a backward pass in which the gradients of a weight's further uses are computed together.
pub fn together<B: AmpBackend>(pass: impl FnOnce() -> Gradients) -> Gradients {
    /// Forgets what a pass that panics has collected.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            COLLECTED.take();
        }
    }

    let _end = End;
    COLLECTED.set(Some(Box::new(Collected::<B>::default())));
    let mut grads = pass();
    let collected = COLLECTED.take();
    if let Some(Ok(all)) = collected.map(|collected| collected.downcast::<Collected<B>>()) {
        register::<B>(all.uses, &mut grads);
    }
    grads
}

thread_local! {
    /// The [`Collected`] of the pass that runs on this thread: a pass runs on the thread that starts it.
    static COLLECTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Adds a use of a leaf to those of the pass. Returns the uses whose gradients are due.
fn collect<B: AmpBackend>(leaf: NodeId, operands: Operands<B>) -> Vec<Uses<B>> {
    COLLECTED.with_borrow_mut(|collected| {
        let collected = collected.as_mut();
        match collected.and_then(|all| all.downcast_mut::<Collected<B>>()) {
            Some(collected) => collected.add(leaf, operands),
            None => vec![Uses::of(leaf, operands)],
        }
    })
}

/// The further uses of all weights that wait in a pass.
#[derive(Default)]
struct Collected<B: AmpBackend> {
    uses: Vec<Uses<B>>,
    /// The number of uses of the weight that was used last.
    last: usize,
}

/// Uses of a weight.
struct Uses<B: AmpBackend> {
    leaf: NodeId,
    operands: Vec<Operands<B>>,
}

impl<B: AmpBackend> Uses<B> {
    fn of(leaf: NodeId, operands: Operands<B>) -> Self {
        Self {
            leaf,
            operands: vec![operands],
        }
    }
}

impl<B: AmpBackend> Collected<B> {
    /// Adds a use; returns those that are due. All weights are due at once, between two time steps, so that those which
    /// share operands, as the gates of a recurrent net do, share the copies.
    fn add(&mut self, leaf: NodeId, operands: Operands<B>) -> Vec<Uses<B>> {
        let known = self.uses.iter().position(|uses| uses.leaf == leaf);
        // The weights of a step have one use more each, in turn: a weight that is not behind the last one begins a step.
        let begins_step = known.is_some_and(|at| self.uses[at].operands.len() >= self.last);
        let due = match known {
            Some(_) if begins_step && self.is_full() => mem::take(&mut self.uses),
            Some(at) if !goes_with(&self.uses[at].operands[0], &operands) => {
                vec![self.uses.swap_remove(at)]
            }
            _ => Vec::new(),
        };
        self.last = match self.uses.iter_mut().find(|uses| uses.leaf == leaf) {
            Some(uses) => {
                uses.operands.push(operands);
                uses.operands.len()
            }
            None => {
                self.uses.push(Uses::of(leaf, operands));
                1
            }
        };
        due
    }

    /// Whether a weight has as many uses as a launch copies, or all operands take more memory than four F32 gradients of
    /// each weight.
    fn is_full(&self) -> bool {
        let gradients = self.uses.iter().map(|uses| {
            let [k, n] = uses.operands[0].gradient();
            k * n * DType::F32.size()
        });
        let lengths = self.uses.iter().map(|uses| uses.operands.len());
        let longest = lengths.max().unwrap_or(0);
        let bytes = (0..longest).map(|step| {
            let operands = self.uses.iter().filter_map(|uses| uses.operands.get(step));
            let tensors = operands.flat_map(|operands| [&operands.x, &operands.grad]);
            bytes_of_all::<B>(tensors)
        });
        longest >= MOST_USES || bytes.sum::<usize>() > 4 * gradients.sum::<usize>()
    }
}

/// Whether the gradients of two uses of a weight can be computed together.
fn goes_with<B: AmpBackend>(one: &Operands<B>, other: &Operands<B>) -> bool {
    let [one, other] = [one, other].map(|o| (o.bias, o.x.dtype(), o.grad.dtype()));
    one == other
}

/// The bytes of all tensors; one that is there twice counts once.
fn bytes_of_all<'a, B: AmpBackend>(tensors: impl Iterator<Item = &'a FloatTensor<B>>) -> usize {
    let mut seen: Vec<&FloatTensor<B>> = Vec::new();
    for tensor in tensors {
        if !seen.iter().any(|other| B::is_same(tensor, other)) {
            seen.push(tensor);
        }
    }
    let bytes = |tensor: &&FloatTensor<B>| tensor.shape().num_elements() * tensor.dtype().size();
    seen.iter().map(bytes).sum()
}

/// Registers the gradients of uses.
fn register<B: AmpBackend>(due: Vec<Uses<B>>, grads: &mut Gradients) {
    let mut copies: Vec<DeferredRows<B>> = Vec::new();
    for Uses { leaf, operands } in due {
        let bias = operands[0].bias;
        let (xs, all_grads) = operands.into_iter().map(|o| (o.x, o.grad)).unzip();
        let [x, grad] = [xs, all_grads].map(|parts| DeferredRows::of(parts, &mut copies));
        if let Some(bias) = bias {
            let sums = copies[grad].column_sums();
            grads.register::<B>(bias, sums);
        }
        let [x, grad] = [x, grad].map(|at| copies[at].all.clone());
        let gradient = super::wide_matmul::<B>(B::float_transpose(x), grad);
        grads.register::<B>(leaf, gradient);
    }
}

/// Matrices, and a copy of their rows below one another.
struct DeferredRows<B: AmpBackend> {
    parts: Vec<FloatTensor<B>>,
    all: FloatTensor<B>,
    column_sums: Option<FloatTensor<B>>,
}

impl<B: AmpBackend> DeferredRows<B> {
    /// Returns the place of the copy of these matrices in `copies`, to which it is added if it is not there.
    fn of(parts: Vec<FloatTensor<B>>, copies: &mut Vec<Self>) -> usize {
        let are_these = |rows: &Self| {
            let mut pairs = rows.parts.iter().zip(&parts);
            rows.parts.len() == parts.len() && pairs.all(|(one, other)| B::is_same(one, other))
        };
        copies.iter().position(are_these).unwrap_or_else(|| {
            copies.push(Self {
                all: crate::cat::cat::<B>(parts.clone(), 0),
                parts,
                column_sums: None,
            });
            copies.len() - 1
        })
    }

    fn column_sums(&mut self) -> FloatTensor<B> {
        let sums = self
            .column_sums
            .get_or_insert_with(|| super::column_sums::<B>(self.all.clone()));
        sums.clone()
    }
}
