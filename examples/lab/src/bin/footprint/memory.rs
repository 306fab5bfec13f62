//! Measures bytes on the heap, where Flex has its tensors, and launches.

use burn::{module::Module, optim::GradientsParams, tensor::backend::AutodiffBackend};
use lab::machine::Meter;

use crate::{
    counting::{Launch, recorded},
    subject::Subject,
};

/// The bytes on the heap.
pub fn heap() -> u64 {
    Meter::Heap.in_use().expect("the heap is always known")
}

/// Returns the bytes that the graph and the output keep after the forward pass.
///
/// A first graph of another batch stays alive meanwhile. It holds the low copies of the parameters, which both share.
pub fn kept<B: AutodiffBackend, S: Subject>(subject: &S) -> u64 {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let first = subject.batch::<B>(&device);
    let second = subject.batch::<B>(&device);
    let with_copies = subject.forward(&net, &first);
    let before = heap();
    let output = subject.forward(&net, &second);
    let kept = heap().saturating_sub(before);
    drop((with_copies, output));
    kept
}

/// Returns the most bytes that a forward and a backward pass hold, above the parameters and the batch.
pub fn peak<B: AutodiffBackend, S: Subject>(subject: &S) -> u64 {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let batch = subject.batch::<B>(&device);
    let before = heap();
    let (peak, _) = Meter::Heap.peak_during(|| both_passes::<B, S>(subject, &net, &batch));
    peak.unwrap_or_default().saturating_sub(before)
}

/// Returns the launches of a forward and a backward pass.
pub fn launches<B: AutodiffBackend, S: Subject>(subject: &S) -> Vec<Launch> {
    let device = Default::default();
    let net = fresh::<B, S>(subject, &device);
    let batch = subject.batch::<B>(&device);
    recorded(|| both_passes::<B, S>(subject, &net, &batch)).0
}

fn both_passes<B: AutodiffBackend, S: Subject>(
    subject: &S,
    net: &S::Net<B>,
    batch: &S::Batch<B>,
) -> GradientsParams {
    let grads = subject.loss(net, batch).backward();
    GradientsParams::from_grads(grads, net)
}

/// Makes a net whose parameters are drawn and have no low copies yet. What is made once in a process, such as the
/// registries of a backend, has been made for another net.
fn fresh<B: AutodiffBackend, S: Subject>(subject: &S, device: &B::Device) -> S::Net<B> {
    let another = subject.init::<B>(device);
    both_passes::<B, S>(subject, &another, &subject.batch::<B>(device));
    drop(another);
    let net = subject.init::<B>(device);
    net.num_params(); // draws the parameters, which are lazy
    net
}
