//! Those who watch the calls of ops, for [`diagnose`](crate::diagnose), and what they see of a call.

use std::sync::Arc;

use burn_amp_core::{
    Op, Precision,
    report::{Sample, Site, Why},
};
use burn_amp_kernels::{AmpBackend, made::Made};
use burn_backend::TensorMetadata;
use parking_lot::RwLock;

use crate::{
    graph::{Graph, Probe},
    precision, site,
    tensor::AmpTensor,
    watching,
};

/// Receives the calls of ops on all threads.
pub(crate) trait Watcher: Send + Sync {
    /// Called when a call has ended, on the stack of its caller.
    fn call(&self, call: &WatchedCall);

    /// Called when a backward pass begins.
    fn backward_begins(&self) {}

    /// Called when a backward pass has the gradient of the result of a call of `op` at `site`.
    fn gradient(&self, op: Option<Op>, site: &Option<Site>, gradient: &Tensor);
}

/// A call of an op, as it was seen.
#[derive(Debug, Default)]
pub(crate) struct WatchedCall {
    /// The op; `None` if it is not in the table.
    pub(crate) op: Option<Op>,
    /// The float operands as they were stored before the call.
    pub(crate) operands: Vec<Tensor>,
    /// The casts of operands and results.
    pub(crate) casts: Vec<Cast>,
    pub(crate) why: Why,
    /// Whether an operand is the rounded result of a saturating op.
    pub(crate) reads_rounded: bool,
    pub(crate) computed_in: Option<Precision>,
    pub(crate) result: Option<Tensor>,
    /// Whether the result waits for its readers: the call itself has computed nothing.
    pub(crate) waits: bool,
    /// The tensors that the call made, if it records a graph and a report is being recorded.
    pub(crate) made: Vec<Made>,
}

/// The dtype and the shape of a float tensor.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: Precision,
    pub(crate) shape: Vec<usize>,
}

/// A cast of an operand or a result.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) from: Precision,
    pub(crate) to: Precision,
    pub(crate) elements: usize,
    /// Whether another use had made it before.
    pub(crate) shared: bool,
    /// Whether the tensor repeats the values of a smaller one.
    pub(crate) expanded: bool,
    /// What became of a sample of the values.
    pub(crate) sample: Sample,
}

static WATCHERS: RwLock<Vec<Arc<dyn Watcher>>> = RwLock::new(Vec::new());

/// Adds a watcher.
pub(crate) fn add(watcher: Arc<dyn Watcher>) {
    WATCHERS.write().push(watcher);
    watching::begin();
}

/// Removes a watcher.
pub(crate) fn remove(watcher: &Arc<dyn Watcher>) {
    WATCHERS
        .write()
        .retain(|other| !Arc::ptr_eq(other, watcher));
    watching::end();
}

/// Shows a call that has ended.
pub(super) fn show(call: &WatchedCall) {
    each(|watcher| watcher.call(call));
}

/// Says that a backward pass begins.
pub(crate) fn backward_begins() {
    if watching::is_on() {
        each(|watcher| watcher.backward_begins());
    }
}

/// What shows the gradient of a result of `op`, if there are watchers.
pub(super) fn probe<B: AmpBackend>(op: Option<Op>) -> Option<Probe<B>> {
    if WATCHERS.read().is_empty() {
        return None;
    }
    let site = site::here();
    Some(Arc::new(move |gradient| {
        let gradient = Tensor::of(gradient);
        each(|watcher| watcher.gradient(op, &site, &gradient));
    }))
}

/// The list is not held while they work: a watcher may call ops itself.
fn each(show: impl Fn(&dyn Watcher)) {
    let watchers = WATCHERS.read().clone();
    watchers.iter().for_each(|watcher| show(&**watcher));
}

impl Tensor {
    /// The tensor as it is stored, or as a reader of F32 gets it if it has not been computed.
    pub(super) fn seen<B: AmpBackend, G: Graph<B>>(tensor: &AmpTensor<B, G>) -> Self {
        Self {
            dtype: tensor.stored(),
            shape: tensor.shape().as_slice().to_vec(),
        }
    }

    pub(super) fn of<T: TensorMetadata>(tensor: &T) -> Self {
        Self {
            dtype: precision::of(tensor),
            shape: tensor.shape().as_slice().to_vec(),
        }
    }
}
