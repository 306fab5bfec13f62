//! A backend that counts what a pass launches and moves, and lets another backend compute.
//!
//! Every op of the inner backend is one launch, which reads its operands and writes its results once. So is a
//! [`Kernel`], as on a GPU, although the inner backend may compose it of several ops; one that is always composed counts
//! as the ops of its reference.
//!
//! * [`launches`]: the record of a thread

mod launches;

use burn_amp_core::Op;
use burn_amp_kernels::{
    AmpBackend,
    kernel::{Kernel, Meta, Tensors, TensorsOf},
};
use instrumented::{Instrument, Instrumented, Value};

pub use launches::{Launch, highest, recorded, skip_through};
use launches::{Size, record};

/// Counts the launches of the backend `B`.
pub type Counting<B> = Instrumented<B, Count>;

/// The instrument of [`Counting`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

impl<B: AmpBackend> Instrument<B> for Count {
    type Seen = (Op, Size);

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, B>>) -> (Op, Size) {
        (op, operands.filter_map(|x| x.meta()).collect())
    }

    fn after<'a>((op, read): (Op, Size), results: impl Iterator<Item = Value<'a, B>>) {
        record(op.name(), read, results.filter_map(|x| x.meta()).collect());
    }

    fn run<K: Kernel>(
        kernel: K,
        operands: TensorsOf<Instrumented<B, Self>>,
    ) -> TensorsOf<Instrumented<B, Self>> {
        if K::IS_COMPOSED {
            return kernel.reference::<Instrumented<B, Self>>(operands);
        }
        let read = size(kernel.reads(operands.metas()));
        let results = B::run(kernel, operands);
        record(K::NAME, read, size(results.metas()));
        results
    }
}

/// The size of all tensors that a kernel reads or writes.
fn size(tensors: Tensors<Meta>) -> Size {
    let floats_and_ints = tensors.floats.into_iter().chain(tensors.ints);
    floats_and_ints.chain(tensors.bools).collect()
}

#[cfg(test)]
mod tests;
