//! The sizes from which on it pays to leave a tensor to its readers, or to compute it again in a backward pass.
//!
//! Tests [`lower`] them, and so reach with small tensors what happens to large ones.

use std::sync::atomic::{AtomicBool, Ordering};

use burn_amp_kernels::saved;

/// A tensor of fewer elements is computed at once, and kept: it is not worth another kernel launch.
pub const WORTH_WAITING: usize = 1024;

/// A factor is small beside a tensor that has this many times its elements.
pub const SMALL: usize = burn_amp_kernels::affine::SMALL;

/// The most ops in a row that a backward pass computes again. burn-autodiff walks each path through them, and the number
/// of paths may double with each op.
pub const LONGEST: u8 = 12;

static ARE_LOWERED: AtomicBool = AtomicBool::new(false);

/// The number of elements from which on a tensor may wait.
#[inline]
pub(crate) fn worth_waiting() -> usize {
    if ARE_LOWERED.load(Ordering::Relaxed) {
        1
    } else {
        WORTH_WAITING
    }
}

/// How many times as many elements as a small factor a tensor has.
#[inline]
pub(crate) fn small() -> usize {
    if ARE_LOWERED.load(Ordering::Relaxed) {
        2
    } else {
        SMALL
    }
}

/// Lowers both sizes on all threads, to 1 and 2, and that of the smallest tensor of which a graph may keep eight bits, to 1,
/// until the result is dropped.
pub fn lower() -> Lowered {
    ARE_LOWERED.store(true, Ordering::Relaxed);
    saved::set_least_elements(1);
    Lowered(())
}

/// Restores the sizes when it is dropped.
#[derive(Debug)]
pub struct Lowered(());

impl Drop for Lowered {
    fn drop(&mut self) {
        ARE_LOWERED.store(false, Ordering::Relaxed);
        saved::set_least_elements(saved::LEAST_ELEMENTS);
    }
}
