//! Reads a sample of the values that are cast, for reports that ask for it.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn_amp_core::{Precision, report::Sample};
use burn_amp_kernels::AmpBackend;
use burn_backend::{Shape, Slice, TensorMetadata, read_sync, tensor::FloatTensor};

use crate::precision;

/// The number of values that are read of a cast, at most; they are evenly apart.
const VALUES: usize = 4096;

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
    let tensor = tensor();
    let count = tensor.shape().num_elements();
    let all = B::float_reshape(tensor, Shape::from([count]));
    let sampled = match count.div_ceil(VALUES) {
        0 | 1 => all,
        step => B::float_slice(all, &[Slice::new(0, None, step as isize)]),
    };
    // In F32 or F64, which every backend hands out.
    let wide = precision::of(&sampled).join(Precision::F32);
    let data = read_sync(B::float_into_data(precision::cast::<B>(sampled, wide)))
        .unwrap_or_else(|error| panic!("cannot read a tensor from the device: {error}"));
    Sample::of(data.iter::<f64>(), to)
}
