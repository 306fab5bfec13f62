//! Measures bytes on the heap, where Flex has its tensors, and launches.
//!
//! Law: a report tells the bytes that the graphs of the zoo keep, within 2 % of the heap's, and 2 KiB.

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

#[cfg(test)]
mod tests {
    use burn_amp::extend::Amped;

    use super::*;
    use crate::{
        precision::{Bf16, F16, Precision},
        subject::{self, Visitor},
    };

    struct Told {
        in_f16: bool,
    }

    impl Visitor for Told {
        /// What two more batches add: the nodes of the graph do not grow with the batch.
        type Output = (u64, u64);

        fn visit<S: Subject>(self, subject: &S) -> Self::Output {
            match self.in_f16 {
                true => added::<<F16 as Precision>::Training, S>(subject),
                false => added::<<Bf16 as Precision>::Training, S>(subject),
            }
        }
    }

    fn added<B: AutodiffBackend + Amped, S: Subject>(subject: &S) -> (u64, u64) {
        let [one, three] = [1, 3].map(|times| left_and_reported::<B, S>(subject, times));
        (three.0 - one.0, three.1 - one.1)
    }

    /// What a forward pass of `times` as many items leaves on the heap, and what a report says that the graph keeps of it.
    fn left_and_reported<B, S>(subject: &S, times: usize) -> (u64, u64)
    where
        B: AutodiffBackend + Amped,
        S: Subject,
    {
        let device = Default::default();
        let net = fresh::<B, S>(subject, &device);
        // What is allocated once for products of this size is there already.
        drop(subject.both_passes(&net, &subject.batch::<B>(times, &device)));
        let batch = subject.batch::<B>(times, &device);
        let before = heap();
        let output = subject.forward(&net, &batch);
        let left = heap().saturating_sub(before);
        drop(output);
        let recording = burn_amp::diagnose::record::<B>(&device);
        drop(subject.both_passes(&net, &batch));
        let report = recording.finish();
        (left, report.kept_bytes().expect("Flex can tell"))
    }

    #[test]
    fn a_report_tells_what_the_graphs_of_the_zoo_keep() {
        let _alone = ALONE.lock();
        // A graph keeps the same tensors in both precisions: one is enough for a model, and each has every second one.
        for (entry, in_f16) in zoo::ZOO.iter().zip([false, true].into_iter().cycle()) {
            let is_near = |(left, reported): (u64, u64)| {
                // The smallest net keeps 20 KiB, and some vectors on the heap grow or shrink meanwhile.
                left.abs_diff(reported) < 2048 + left / 50
            };
            // A thread allocates what it needs for products when it first takes part in one, which may be meanwhile.
            let mut attempts = (0..3).map(|_| subject::visit(entry.name, Told { in_f16 }).unwrap());
            assert!(
                attempts.any(is_near),
                "{}: the report differs from the heap",
                entry.name
            );
        }
    }
}
