//! Records a call of an op for a file that is run again: its arguments before it computes, its results after.

use std::{cell::Cell, sync::Arc};

use burn_amp_core::{
    Op,
    replay::{Argument, Call, Nature as Kind, Produced, Use, Values},
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use super::{plain::Plain, scope, shadow};
use crate::{
    graph::Graph,
    policy::{Context, Key, Outside, Stored, next_id},
    precision, site,
    tensor::{AmpTensor, Reader, Recipe, Role},
};

thread_local! {
    /// Whether this thread runs an op that is recorded. The ops that it is made of are not.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call that is recorded, before its results are known.
pub(crate) struct Taken<B: AmpBackend> {
    op: Op,
    context: Option<&'static Context<B>>,
    arguments: Vec<Raw<B>>,
    /// Whether this call has set [`IS_INSIDE`].
    is_outermost: bool,
}

/// An argument as it was passed.
enum Raw<B: AmpBackend> {
    Done(Argument),
    Stored(Stored<B>),
}

impl<B: AmpBackend> Taken<B> {
    /// Takes the arguments of a call, if the step is recorded. `look` shows them.
    #[cold]
    #[inline(never)]
    pub(crate) fn of<G: Graph<B>>(op: Op, look: impl FnOnce(&mut Self)) -> Option<Box<Self>> {
        if !G::RECORDS || IS_INSIDE.get() || shadow::is_reference() {
            return None;
        }
        let mut taken = Self {
            op,
            context: None,
            arguments: Vec::new(),
            is_outermost: false,
        };
        look(&mut taken);
        if !taken.context.is_some_and(Context::is_recording) {
            return None;
        }
        IS_INSIDE.set(true);
        taken.is_outermost = true;
        Some(Box::new(taken))
    }

    /// Sees a float tensor.
    pub(crate) fn float<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) {
        let operand = self.used(tensor);
        self.arguments
            .extend(operand.map(|operand| Raw::Done(Argument::Float(operand))));
    }

    /// Sees a float tensor that the op can do without.
    pub(crate) fn optional<G: Graph<B>>(&mut self, tensor: Option<&AmpTensor<B, G>>) {
        match tensor {
            Some(tensor) => self.float(tensor),
            None => self.absent(),
        }
    }

    /// Sees float tensors.
    pub(crate) fn floats<G: Graph<B>>(&mut self, tensors: &[AmpTensor<B, G>]) {
        let operands = tensors
            .iter()
            .filter_map(|tensor| self.used(tensor))
            .collect();
        self.arguments.push(Raw::Done(Argument::Floats(operands)));
    }

    /// Sees an integer tensor.
    pub(crate) fn int(&mut self, tensor: &IntTensor<B>) {
        self.arguments
            .push(Raw::Stored(Stored::Int(tensor.clone())));
    }

    /// Sees a bool tensor.
    pub(crate) fn bool(&mut self, tensor: &BoolTensor<B>) {
        self.arguments
            .push(Raw::Stored(Stored::Bool(tensor.clone())));
    }

    /// Sees a tensor that was left out.
    pub(crate) fn absent(&mut self) {
        self.arguments.push(Raw::Done(Argument::Absent));
    }

    /// Sees a number, a shape, options.
    pub(crate) fn plain(&mut self, value: impl Plain) {
        self.arguments
            .push(Raw::Done(Argument::Plain(value.write())));
    }

    /// Looks up the number of a float tensor, if the step is recorded.
    fn used<G: Graph<B>>(&mut self, tensor: &AmpTensor<B, G>) -> Option<Use> {
        let context = *self.context.get_or_insert(tensor.context);
        if !context.is_recording() {
            return None;
        }
        let key = match &tensor.role {
            Role::Leaf(leaf) => Some(Key::Leaf(Arc::as_ptr(leaf).addr())),
            _ => tensor.node().map(Key::Node),
        };
        Some(Use {
            is_shared: tensor.recorded.is_shared(),
            id: context.recorder.with(|recording| {
                recording.id_of(tensor.recorded.id, key, |id, data| {
                    outside(tensor, id, data)
                })
            }),
        })
    }

    /// Records the call with its results, which get numbers.
    pub(crate) fn finish<G: Graph<B>>(mut self, results: &mut [&mut AmpTensor<B, G>]) {
        let Some(context) = self.context else {
            return;
        };
        let is_outside = |result: &&mut AmpTensor<B, G>| {
            matches!(result.role, Role::Leaf(_)) || !std::ptr::eq(result.context, context)
        };
        // A leaf is a tensor from outside, and so is a tensor from another device.
        if results.iter().any(is_outside) {
            return;
        }
        let results = results.iter_mut().map(|result| {
            result.recorded.id = next_id();
            Produced {
                id: result.recorded.id,
                values: (!result.waits()).then(|| values_of::<B>(stored_values(result))),
            }
        });
        let results = results.collect();
        let (op, site) = (self.op.name().to_owned(), site::here());
        let arguments = std::mem::take(&mut self.arguments);
        context.recorder.with(|recording| {
            let arguments = arguments.into_iter().map(|argument| match argument {
                Raw::Done(argument) => argument,
                Raw::Stored(stored) => Argument::Data(recording.keep(stored)),
            });
            let arguments = arguments.collect();
            recording.add(Call {
                op,
                site,
                full_precision: scope::is_full_precision(),
                arguments,
                results,
            });
        });
    }
}

impl<B: AmpBackend> Drop for Taken<B> {
    fn drop(&mut self) {
        if self.is_outermost {
            IS_INSIDE.set(false);
        }
    }
}

/// A tensor that no call of the step made, with its values.
fn outside<B: AmpBackend, G: Graph<B>>(
    tensor: &AmpTensor<B, G>,
    id: u64,
    data: usize,
) -> (Outside<B>, FloatTensor<B>) {
    let leaf = match &tensor.role {
        Role::Leaf(leaf) => Some(leaf.clone()),
        _ => None,
    };
    let outside = Outside {
        id,
        data,
        logical: tensor.logical,
        nature: match (&tensor.role, tensor.recipe()) {
            (Role::Leaf(_), _) => Kind::Leaf,
            (Role::Parameter(_), _) => Kind::Parameter,
            (Role::Gradient(_), _) => Kind::Gradient,
            (Role::Activation, Some(Recipe::ZerosAndOnes)) => Kind::ZerosAndOnes,
            (Role::Activation, Some(Recipe::Filled)) => Kind::Filled,
            (Role::Activation, _) => Kind::Plain,
        },
        is_cut: leaf.is_none() && tensor.is_tracked(),
        origin: tensor.role.origin().cloned(),
        handle: tensor.handle(),
        leaf,
    };
    (outside, stored_values(tensor))
}

/// The values of a tensor in the dtype in which they are stored, outside any graph.
fn stored_values<B: AmpBackend, G: Graph<B>>(tensor: &AmpTensor<B, G>) -> FloatTensor<B> {
    G::values(&tensor.clone().read(tensor.stored(), Reader::Cut))
}

/// Looks at values. Incurs a device-to-host read.
pub(crate) fn values_of<B: AmpBackend>(tensor: FloatTensor<B>) -> Values {
    let dtype = precision::of(&tensor);
    let shape = tensor.shape().as_slice().to_vec();
    Values::of(dtype, shape, precision::read::<B>(tensor).iter::<f64>())
}
