//! Runs each op once more in F32 or F64, on the same operands, and compares.

use std::{borrow::Cow, cell::Cell, sync::Arc};

use burn_amp_core::{
    Op, Precision,
    shadow::{ShadowReport, relative_error},
};
use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;
use parking_lot::{Mutex, RwLock};

use super::{
    scope::full_precision,
    signature::{Given, Run},
};
use crate::{
    graph::{Graph, NoGraph},
    precision, site,
    tensor::{AmpTensor, Reader},
    watching,
};

/// The comparisons under way.
static COMPARISONS: RwLock<Vec<Comparison>> = RwLock::new(Vec::new());

/// A comparison with a dtype, F32 or F64, and what it has found.
#[derive(Clone)]
pub(crate) struct Comparison {
    pub(crate) with: Precision,
    pub(crate) report: Arc<Mutex<ShadowReport>>,
}

thread_local! {
    /// Whether this thread computes a reference.
    static IS_REFERENCE: Cell<bool> = const { Cell::new(false) };
}

/// Begins a comparison.
pub(crate) fn add(comparison: Comparison) {
    COMPARISONS.write().push(comparison);
    watching::begin();
}

/// Ends a comparison.
pub(crate) fn remove(comparison: &Comparison) {
    COMPARISONS
        .write()
        .retain(|other| !Arc::ptr_eq(&other.report, &comparison.report));
    watching::end();
}

/// Whether ops are compared.
pub(super) fn is_on() -> bool {
    !COMPARISONS.read().is_empty()
}

/// Whether the current call is that of a reference, which nobody is to see.
pub(super) fn is_reference() -> bool {
    IS_REFERENCE.get()
}

/// Runs `f`, whose calls nobody is to see.
fn unseen<T>(f: impl FnOnce() -> T) -> T {
    IS_REFERENCE.set(true);
    scopeguard::defer!(IS_REFERENCE.set(false));
    f()
}

/// The result of an op in the dtype of each comparison.
pub(super) struct Shadow<B: AmpBackend> {
    op: Op,
    expected: Vec<(Comparison, FloatTensor<B>)>,
}

impl<B: AmpBackend> Shadow<B> {
    /// Runs the references of an op that does float arithmetic, if ops are compared.
    pub(super) fn of<G: Graph<B>>(
        op: Op,
        again: Run<B, NoGraph>,
        given: &[Given<B, G>],
    ) -> Option<Self> {
        op.class(Precision::F16)?;
        let comparisons = COMPARISONS.read().clone();
        let expected = comparisons.into_iter().filter_map(|comparison| {
            let given = given.iter().map(|given| in_dtype(given, comparison.with));
            let expected = full_precision(|| again(given.collect()))?.pop()?;
            let wide = expected.stored().join(Precision::F32);
            Some((comparison, expected.read(wide, Reader::Cut)))
        });
        let expected: Vec<_> = unseen(|| expected.collect());
        (!expected.is_empty()).then_some(Self { op, expected })
    }

    /// Compares a result with the references.
    pub(super) fn compare<G: Graph<B>>(self, result: &AmpTensor<B, G>) {
        let found = unseen(|| values::<B>(values_in(result, Precision::F32)));
        for (comparison, expected) in self.expected {
            let error = relative_error(&found, &values::<B>(expected));
            let mut report = comparison.report.lock();
            report.add(self.op.name(), site::here(), result.stored(), error);
        }
    }
}

/// An argument outside a graph, with float tensors in `dtype`.
fn in_dtype<B: AmpBackend, G: Graph<B>>(
    given: &Given<B, G>,
    dtype: Precision,
) -> Given<'static, B, NoGraph> {
    let float = |tensor: &AmpTensor<B, G>| {
        AmpTensor::<B, NoGraph>::new(values_in(tensor, dtype), tensor.context)
    };
    match given {
        Given::Float(tensor) => Given::Float(Cow::Owned(float(tensor))),
        Given::Floats(tensors) => Given::Floats(tensors.iter().map(float).collect()),
        Given::Int(tensor) => Given::Int(tensor.clone()),
        Given::Bool(tensor) => Given::Bool(tensor.clone()),
        Given::Absent => Given::Absent,
        Given::Plain(json) => Given::Plain(json.clone()),
        Given::Other => Given::Other,
    }
}

/// The values of a tensor in `dtype`, or in F64 if it is, outside a graph: as the tensor is stored, or as a reader of F32
/// gets them if it has not been computed.
fn values_in<B: AmpBackend, G: Graph<B>>(
    tensor: &AmpTensor<B, G>,
    dtype: Precision,
) -> FloatTensor<B> {
    precision::cast::<B>(tensor.stored_values(), tensor.stored().join(dtype))
}

/// Reads values. Incurs a device-to-host read.
fn values<B: AmpBackend>(tensor: FloatTensor<B>) -> Vec<f64> {
    precision::read::<B>(tensor).iter::<f64>().collect()
}
