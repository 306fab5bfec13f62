//! A call of a step by itself, with the calls whose results wait for it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use burn_amp_core::{
    Precision,
    replay::{Compared, Nature, Outside, Step},
};
use burn_amp_kernels::names::shape_of;
use burn_autodiff::Autodiff;
use burn_backend::{
    AutodiffBackend, TensorData,
    ops::FloatTensorOps,
    tensor::{Device, FloatTensor},
};

use super::{
    call::{self, Tensors},
    run::{self, Ran, ReplayError, SeenResult},
};
use crate::{
    cast::parameters::is_view,
    distributed::Trainable,
    graph::{Graph, Tape},
    policy::Context,
    precision,
    tensor::{AmpTensor, Reader},
};

/// A call, with those that make what it reads as long as they compute together: the results of these wait, or are read
/// otherwise than their values say, or are views. And with the views of its result, through which its gradient comes: a
/// backend may compute otherwise on the layout of a view.
#[derive(Clone)]
pub(super) struct Unit<'a> {
    /// The call that it is about.
    pub(super) at: usize,
    /// The calls in their order.
    pub(super) calls: Vec<usize>,
    /// The call whose first result is given a gradient: `at`, or the last of the views.
    pub(super) root: usize,
    /// The tensors that enter it, by their numbers.
    pub(super) inputs: BTreeMap<u64, Input<'a>>,
    /// The operands of each call of the step that are there in low precision before it.
    lowered: &'a [Vec<u64>],
    /// The gradient of the first result of `root`.
    pub(super) received: Option<Cow<'a, TensorData>>,
}

/// A tensor that enters a unit.
#[derive(Clone)]
pub(super) struct Input<'a> {
    pub(super) values: Cow<'a, TensorData>,
    from: From<'a>,
}

/// Where a tensor is from that enters a unit.
#[derive(Clone, Copy)]
enum From<'a> {
    /// From outside of the step.
    Outside(&'a Outside),
    /// Another call made it.
    Call(&'a SeenResult<TensorData>),
}

/// How the operands of a unit are rounded otherwise: each is multiplied by another number near 1.
#[derive(Clone, Copy)]
pub(super) struct Nudge {
    /// The number of the sample.
    pub(super) sample: usize,
    /// The largest relative change.
    pub(super) by: f64,
}

impl Nudge {
    /// Multiplies values by numbers that are spread evenly around 1.
    fn apply(self, data: &TensorData) -> TensorData {
        // The fractions of the multiples of these two are spread evenly, alone and together.
        let [step, of_sample] = [0.754_877_666_246_692_7, 0.569_840_290_998_053_3];
        let values = data.iter::<f64>().enumerate().map(|(at, x)| {
            let place = at as f64 * step + (self.sample + 1) as f64 * of_sample;
            x * (1.0 + self.by * (2.0 * place.fract() - 1.0))
        });
        TensorData::new(values.collect(), shape_of(data))
    }
}

/// What a unit has computed.
pub(super) struct Computed {
    /// The float results of the call that it is about.
    pub(super) results: Vec<TensorData>,
    /// The gradients of the tensors that entered it, by their numbers.
    pub(super) gradients: BTreeMap<u64, TensorData>,
}

impl Computed {
    /// A tensor among what was computed.
    pub(super) fn of(&self, what: Compared) -> Option<&TensorData> {
        match what {
            Compared::Result(place) => self.results.get(place),
            Compared::Gradient(id) => self.gradients.get(&id),
        }
    }
}

impl<'a> Unit<'a> {
    /// The unit of a call in a step that has run.
    pub(super) fn of(step: &'a Step, ran: &'a Ran<TensorData>, makers: &Makers, at: usize) -> Self {
        let mut calls = BTreeSet::new();
        let mut inputs = BTreeMap::new();
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            if !calls.insert(at) {
                continue;
            }
            for operand in step.calls[at].uses() {
                let Some((maker, place)) = makers.get(&operand.id).copied() else {
                    let outside = step.outside.iter().find(|outside| outside.id == operand.id);
                    if let Some(outside) = outside {
                        let values = Cow::Owned(call::to_burn(&step.data[outside.data]));
                        let from = From::Outside(outside);
                        inputs.insert(operand.id, Input { values, from });
                    }
                    continue;
                };
                let seen = &ran.calls[maker][place];
                let is_view = step.calls[maker].op.parse().is_ok_and(is_view);
                match &seen.values {
                    Some(values) if seen.is_plain && !is_view => {
                        let (values, from) = (Cow::Borrowed(values), From::Call(seen));
                        inputs.insert(operand.id, Input { values, from });
                    }
                    _ => open.push(maker),
                }
            }
        }
        let mut root = at;
        while let Some(view) = only_view(step, root) {
            root = view;
            calls.insert(root);
        }
        let first = &ran.calls[root].first();
        let is_plain = first.is_some_and(|seen| seen.is_plain && seen.is_tracked);
        Self {
            at,
            calls: calls.into_iter().collect(),
            root,
            inputs,
            lowered: &ran.lowered,
            received: ran.received[root]
                .as_ref()
                .filter(|_| is_plain)
                .map(Cow::Borrowed),
        }
    }

    /// What rounding sums otherwise may change of an operand, relative to it. Sums are rounded in `wide`, and none has more
    /// terms than the largest tensor has elements.
    pub(super) fn roundings(&self, wide: Precision) -> f64 {
        let values = self
            .inputs
            .values()
            .map(|input| input.values.num_elements());
        let received = self.received.as_ref().map(|data| data.num_elements());
        let terms = values.chain(received).max().unwrap_or_default();
        wide.epsilon() * (terms as f64).sqrt()
    }

    /// Computes the unit, and its backward pass if a gradient reaches it.
    pub(super) fn run<B: Trainable>(
        &self,
        step: &Step,
        device: &Device<B>,
        context: &'static Context<B>,
        all_in: Option<Precision>,
        nudge: Option<Nudge>,
    ) -> Result<Computed, ReplayError> {
        run::caught(step, &mut self.at.clone(), |_| {
            let entered = |data: &TensorData, nudge: Option<Nudge>| {
                let values = match nudge {
                    Some(nudge) => B::float_from_data(nudge.apply(data), device),
                    None => B::float_from_data(data.clone(), device),
                };
                match all_in {
                    Some(dtype) => precision::cast::<B>(values, dtype),
                    None => values,
                }
            };
            let mut tensors = Tensors::new();
            let mut leaves: Vec<(u64, FloatTensor<Autodiff<B>>)> = Vec::new();
            for (id, input) in &self.inputs {
                let values = entered(&input.values, nudge.filter(|_| input.has_roundings()));
                let (tensor, leaf) = input.made(values, context, all_in);
                leaves.extend(leaf.map(|leaf| (*id, leaf)));
                tensors.insert(*id, tensor);
            }
            let mut results = Vec::new();
            let mut root = None;
            for at in &self.calls {
                let call = &step.calls[*at];
                let lowered = self.lowered[*at].iter().filter_map(|id| tensors.get(id));
                lowered.for_each(AmpTensor::lower);
                let made = run::again(call, *at, step, device, all_in, &mut tensors)?;
                if *at == self.at {
                    let made = made.iter().map(|result| read::<B>(result.stored_values()));
                    results = made.collect();
                }
                if *at == self.root {
                    root = made.first().cloned();
                }
                let recorded = call.results.iter().map(|result| result.id);
                tensors.extend(recorded.zip(made));
            }
            let gradients = match (&self.received, root) {
                (Some(received), Some(result)) if result.is_tracked() => {
                    let dtype = result.exact_dtype();
                    let root: FloatTensor<Autodiff<B>> = result.read(dtype, Reader::Cut);
                    let received = precision::cast::<B>(entered(received, nudge), dtype);
                    // The gradient of a sum of products with constants is the constants.
                    let root = Autodiff::<B>::float_mul(root, Autodiff::<B>::from_inner(received));
                    let grads = Autodiff::<B>::backward(root);
                    let gradient = |(id, leaf): &(u64, FloatTensor<Autodiff<B>>)| {
                        Some((*id, read::<B>(leaf.grad(&grads)?)))
                    };
                    leaves.iter().filter_map(gradient).collect()
                }
                _ => BTreeMap::new(),
            };
            Ok(Computed { results, gradients })
        })
    }
}

impl Input<'_> {
    /// Whether the values may be rounded ones. Masks and constants are exact.
    pub(super) fn has_roundings(&self) -> bool {
        match self.from {
            From::Outside(outside) => {
                !matches!(outside.nature, Nature::ZerosAndOnes | Nature::Filled)
            }
            From::Call(_) => true,
        }
    }

    /// Whether a backward pass computes a gradient of it.
    pub(super) fn is_tracked(&self) -> bool {
        match self.from {
            From::Outside(outside) => outside.nature == Nature::Leaf,
            From::Call(seen) => seen.is_tracked,
        }
    }

    /// Makes the tensor of values, and the node at which its gradient is stored.
    fn made<B: Trainable>(
        &self,
        values: FloatTensor<B>,
        context: &'static Context<B>,
        all_in: Option<Precision>,
    ) -> (AmpTensor<B, Tape>, Option<FloatTensor<Autodiff<B>>>) {
        match self.from {
            From::Outside(outside) => {
                let tensor = run::made_of(outside, values, all_in, context);
                let leaf = tensor.handle();
                (tensor, leaf)
            }
            From::Call(seen) => {
                let values = Autodiff::<B>::from_inner(values);
                let (values, leaf) = if seen.is_tracked {
                    let leaf = Autodiff::<B>::float_set_require_grad(values, true);
                    // A node of its own: burn-amp takes a leaf of the graph for a parameter.
                    let inside =
                        <Tape as Graph<B>>::probed(leaf.clone(), std::sync::Arc::new(|_| ()));
                    (inside, Some(leaf))
                } else {
                    (values, None)
                };
                let mut tensor = AmpTensor::<B, Tape>::new(values, context);
                let facts = tensor.facts_mut();
                facts.logical = all_in.unwrap_or(seen.logical);
                [facts.recorded.is_product, facts.recorded.is_linear] = seen.is_product;
                (tensor, leaf)
            }
        }
    }
}

/// The view that is the only reader of a call's first result.
fn only_view(step: &Step, at: usize) -> Option<usize> {
    let id = step.calls[at].results.first()?.id;
    let calls = step.calls.iter().enumerate().skip(at + 1);
    let mut readers = calls.filter(|(_, call)| call.uses().any(|operand| operand.id == id));
    let (reader, call) = readers.next()?;
    let is_view = call.op.parse().is_ok_and(is_view);
    (is_view && readers.next().is_none()).then_some(reader)
}

/// The call that made each float tensor, and its place among the results.
pub(super) type Makers = HashMap<u64, (usize, usize)>;

/// The calls of a step by the tensors that they make.
pub(super) fn makers(step: &Step) -> Makers {
    let calls = step.calls.iter().enumerate();
    calls
        .flat_map(|(at, call)| {
            let results = call.results.iter().enumerate();
            results.map(move |(place, result)| (result.id, (at, place)))
        })
        .collect()
}

/// Reads a tensor in the dtype in which it is stored.
pub(super) fn read<B: Trainable>(tensor: FloatTensor<B>) -> TensorData {
    let stored = precision::of(&tensor);
    precision::read::<B>(tensor).convert_dtype(precision::to_burn(stored))
}
