//! Runs each op once more in F32, on the same operands, and compares.

use std::{cell::Cell, sync::Arc};

use burn_amp_core::{
    Op, Precision,
    shadow::{ShadowReport, relative_error},
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{read_sync, tensor::FloatTensor};
use parking_lot::{Mutex, RwLock};

use super::scope::full_precision;
use crate::{
    graph::{Graph, NoGraph},
    precision, site,
    tensor::AmpTensor,
    watching,
};

/// What the comparisons under way have found.
static REPORTS: RwLock<Vec<Arc<Mutex<ShadowReport>>>> = RwLock::new(Vec::new());

thread_local! {
    /// Whether this thread computes a reference.
    static IS_REFERENCE: Cell<bool> = const { Cell::new(false) };
}

/// Adds a report to those that are told of each call.
pub(crate) fn add(report: Arc<Mutex<ShadowReport>>) {
    REPORTS.write().push(report);
    watching::begin();
}

/// Removes a report.
pub(crate) fn remove(report: &Arc<Mutex<ShadowReport>>) {
    REPORTS.write().retain(|other| !Arc::ptr_eq(other, report));
    watching::end();
}

/// Whether the current call is that of a reference, which nobody is to see.
pub(super) fn is_reference() -> bool {
    IS_REFERENCE.get()
}

/// The result of an op in F32.
pub(crate) struct Shadow<B: AmpBackend> {
    op: Op,
    expected: FloatTensor<B>,
}

impl<B: AmpBackend> Shadow<B> {
    /// Runs the reference of an op that does float arithmetic, if ops are compared.
    #[cold]
    #[inline(never)]
    pub(crate) fn of(op: Op, reference: impl FnOnce() -> AmpTensor<B>) -> Option<Box<Self>> {
        if op.class(Precision::F16).is_none() || is_reference() || REPORTS.read().is_empty() {
            return None;
        }
        IS_REFERENCE.set(true);
        let expected = full_precision(reference).in_f32().inner;
        IS_REFERENCE.set(false);
        Some(Box::new(Self { op, expected }))
    }

    /// Compares a result with the reference.
    #[cold]
    #[inline(never)]
    pub(crate) fn compared<G: Graph<B>>(self, result: AmpTensor<B, G>) -> AmpTensor<B, G> {
        let Self { op, expected } = self;
        IS_REFERENCE.set(true);
        let stored = result.stored();
        let found = values::<B>(operand(&result).inner);
        IS_REFERENCE.set(false);
        let error = relative_error(&found, &values::<B>(expected));
        let site = site::here();
        let reports = REPORTS.read().clone();
        for report in reports {
            report.lock().add(op.name(), site.clone(), stored, error);
        }
        result
    }
}

/// The values of a tensor in F32, or in F64 if it is, outside a graph: as the tensor is stored, or as a reader of F32 gets
/// them if it has not been computed.
pub(crate) fn operand<B: AmpBackend, G: Graph<B>>(
    tensor: &AmpTensor<B, G>,
) -> AmpTensor<B, NoGraph> {
    let inner = G::values(&tensor.clone().computed().inner);
    let wide = precision::of(&inner).join(Precision::F32);
    AmpTensor::new(precision::cast::<B>(inner, wide), tensor.context)
}

/// Reads values. Incurs a device-to-host read.
fn values<B: AmpBackend>(tensor: FloatTensor<B>) -> Vec<f64> {
    let data = read_sync(B::float_into_data(tensor))
        .unwrap_or_else(|error| panic!("cannot read a tensor from the device: {error}"));
    data.iter::<f64>().collect()
}
