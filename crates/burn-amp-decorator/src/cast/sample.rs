//! Reads a sample of the values that are cast, for reports that ask for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn_amp_core::{Precision, report::Sample};
use burn_amp_kernels::{AmpBackend, sample};
use burn_backend::tensor::FloatTensor;

use crate::precision;

/// The number of reports that ask for samples.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Counts a report that asks for samples.
pub(crate) fn begin() {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// Counts one less.
pub(crate) fn end() {
    ASKED.fetch_sub(1, Ordering::Relaxed);
}

/// Looks at values that are cast to `to`, if a report asks for it. Incurs a device-to-host read.
pub(super) fn of<B: AmpBackend>(tensor: impl FnOnce() -> FloatTensor<B>, to: Precision) -> Sample {
    if ASKED.load(Ordering::Relaxed) == 0 || !to.is_low() {
        return Sample::default();
    }
    let data = precision::read::<B>(sample::of::<B>(tensor()));
    Sample::of(data.iter::<f64>(), to)
}
