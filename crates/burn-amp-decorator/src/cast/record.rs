//! Records a call of an op for a file that is run again: its arguments before it computes, its results after.

use std::{cell::Cell, sync::Arc};

use burn_amp_core::{
    Op,
    replay::{Argument, Call, Nature as Kind, Produced, Use, Values},
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{TensorMetadata, tensor::FloatTensor};

use super::{scope, signature::Given};
use crate::{
    graph::Graph,
    policy::{Context, KeptTensor, Key, Outside, StepRecording, next_id},
    precision, site,
    tensor::{AmpTensor, Recipe, Role},
};

thread_local! {
    /// Whether this thread runs an op that is recorded. The ops that it is made of are not.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A call that is recorded, before its results are known.
pub(super) struct Taken<B: AmpBackend> {
    op: Op,
    context: &'static Context<B>,
    arguments: Vec<Argument>,
}

impl<B: AmpBackend> Taken<B> {
    /// Takes the arguments of a call, if the step is recorded.
    pub(super) fn of<G: Graph<B>>(op: Op, given: &[Given<B, G>]) -> Option<Self> {
        if !G::RECORDS || IS_INSIDE.get() {
            return None;
        }
        let context = given
            .iter()
            .find_map(|given| given.tensors().first())?
            .context;
        if !context.is_recording() {
            return None;
        }
        let arguments = context.recorder.with(|recording| {
            let arguments = given.iter().filter_map(|given| argument(given, recording));
            arguments.collect()
        });
        IS_INSIDE.set(true);
        Some(Self {
            op,
            context,
            arguments,
        })
    }

    /// Records the call with its results, which get numbers.
    pub(super) fn finish<G: Graph<B>>(mut self, mut results: Vec<&mut AmpTensor<B, G>>) {
        let is_outside = |result: &&mut AmpTensor<B, G>| {
            matches!(result.role, Role::Leaf(_)) || !std::ptr::eq(result.context, self.context)
        };
        // A leaf is a tensor from outside, and so is a tensor from another device.
        if results.iter().any(is_outside) {
            return;
        }
        let results = results.iter_mut().map(|result| {
            result.facts_mut().recorded.id = next_id();
            Produced {
                id: result.recorded.id,
                values: (!result.waits()).then(|| values_of::<B>(result.stored_values())),
            }
        });
        let call = Call {
            op: self.op.name().to_owned(),
            site: site::here(),
            full_precision: scope::is_full_precision(),
            arguments: std::mem::take(&mut self.arguments),
            results: results.collect(),
        };
        self.context.recorder.with(|recording| recording.add(call));
    }
}

impl<B: AmpBackend> Drop for Taken<B> {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

/// An argument as it is recorded.
fn argument<B: AmpBackend, G: Graph<B>>(
    given: &Given<B, G>,
    recording: &mut StepRecording<B>,
) -> Option<Argument> {
    let mut used = |tensor| used(tensor, recording);
    Some(match given {
        Given::Float(tensor) => Argument::Float(used(tensor)),
        Given::Floats(tensors) => Argument::Floats(tensors.iter().map(used).collect()),
        Given::Int(tensor) => Argument::Data(recording.keep(KeptTensor::Int(tensor.clone()))),
        Given::Bool(tensor) => Argument::Data(recording.keep(KeptTensor::Bool(tensor.clone()))),
        Given::Absent => Argument::Absent,
        Given::Plain(json) => Argument::Plain(json.clone()),
        Given::Other => return None,
    })
}

/// The number of a float tensor.
fn used<B: AmpBackend, G: Graph<B>>(
    tensor: &AmpTensor<B, G>,
    recording: &mut StepRecording<B>,
) -> Use {
    let key = match &tensor.role {
        Role::Leaf(leaf) => Some(Key::Leaf(Arc::as_ptr(leaf).addr())),
        _ => tensor.own_node().map(Key::Node),
    };
    Use {
        is_shared: tensor.has_other_readers(),
        id: recording.id_of(tensor.recorded.id, key, |id, data| {
            outside(tensor, id, data)
        }),
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
    (outside, tensor.stored_values())
}

/// Looks at values. Incurs a device-to-host read.
pub(crate) fn values_of<B: AmpBackend>(tensor: FloatTensor<B>) -> Values {
    let dtype = precision::of(&tensor);
    let shape = tensor.shape().as_slice().to_vec();
    Values::of(dtype, shape, precision::read::<B>(tensor).iter::<f64>())
}
