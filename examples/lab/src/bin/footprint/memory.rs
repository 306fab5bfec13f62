//! Measures bytes on the heap, where Flex has its tensors, and launches.

use burn::{module::Module, optim::GradientsParams, tensor::backend::AutodiffBackend};
use lab::machine::Meter;

use crate::{
    counting::{Launch, highest, recorded},
    subject::Subject,
};

/// The bytes on the heap.
pub fn heap() -> u64 {
    Meter::Heap.in_use().expect("the heap is always known")
}

/// Returns the bytes that the graph and the output keep after the forward pass of `times` as many items as the subject's,
/// with the batch as far as the graph keeps it: a training loop moves its batch into the model.
///
/// A first graph of another batch stays alive meanwhile. It holds the low copies of the parameters, which both share.
pub fn kept<B: AutodiffBackend, S: Subject>(subject: &S, times: usize) -> u64 {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let first = subject.batch::<B>(times, &device);
    let with_copies = subject.forward(&net, &first);
    let before = heap();
    let second = subject.batch::<B>(times, &device);
    let output = subject.forward(&net, &second);
    drop(second);
    let kept = heap().saturating_sub(before);
    drop((with_copies, output));
    kept
}

/// Returns the bytes that the graph and the output keep of each further batch: their tensors, without what does not grow
/// with the batch, such as the nodes of the graph.
pub fn tensors<B: AutodiffBackend, S: Subject>(subject: &S) -> u64 {
    kept::<B, S>(subject, 2).saturating_sub(kept::<B, S>(subject, 1))
}

/// Returns the most bytes that a forward and a backward pass hold between their ops, above the parameters and the batch.
pub fn peak<B: AutodiffBackend, S: Subject>(subject: &S) -> u64 {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let batch = subject.batch::<B>(1, &device);
    let before = heap();
    let (peak, _) = highest(|| both_passes::<B, S>(subject, &net, &batch));
    peak.saturating_sub(before)
}

/// Returns the launches of a forward and a backward pass.
pub fn launches<B: AutodiffBackend, S: Subject>(subject: &S) -> Vec<Launch> {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let batch = subject.batch::<B>(1, &device);
    recorded(|| both_passes::<B, S>(subject, &net, &batch)).0
}

fn both_passes<B: AutodiffBackend, S: Subject>(
    subject: &S,
    net: &S::Net<B>,
    batch: &S::Batch<B>,
) -> GradientsParams {
    GradientsParams::from_grads(subject.both_passes(net, batch), net)
}

/// Makes a net whose parameters are drawn and have no low copies yet. What is made once in a process, such as the
/// registries of a backend, has been made for another net.
fn fresh<B: AutodiffBackend, S: Subject>(subject: &S, device: &B::Device) -> S::Net<B> {
    let another = subject.init::<B>(device);
    both_passes::<B, S>(subject, &another, &subject.batch::<B>(1, device));
    drop(another);
    let net = subject.init::<B>(device);
    net.num_params(); // draws the parameters, which are lazy
    net
}

/// Held by tests that measure the heap or use much of it, because all threads share it.
#[cfg(test)]
pub static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
