//! The decorator itself: [`Amp`], and [`Autodiff`], which trains with it.

use std::{fmt, marker::PhantomData};

use burn_amp_kernels::AmpBackend;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_backend::{
    AutodiffBackend, Backend, BackendTypes, DType, DTypeUsageSet, ExecutionError, TensorData,
};

use crate::{
    graph::{Graph, NoGraph, Tape},
    policy::{ConfigSource, FromFile},
    tensor::AmpTensor,
};

/// Runs each op of the backend `B` in the precision that the policy of `P` gives it.
///
/// ```
/// use burn::backend::Flex;
/// use burn_amp::{Amp, Autodiff};
///
/// type Training = Autodiff<Amp<Flex>>;
/// type Inference = Amp<Flex>;
/// ```
///
/// `P` is the source of the configuration, see [`ConfigSource`]. `G` says whether a graph is recorded for a backward
/// pass; write [`Autodiff<Amp<B, P>>`](crate::Autodiff) instead of naming `G`.
#[doc(alias("autocast", "torch.amp", "mixed precision"))]
pub struct Amp<B, P = FromFile, G = NoGraph>(PhantomData<(B, P, G)>);

// Implemented by hand, because a derive would require `B`, `P` and `G` to implement the trait too.
impl<B, P, G> Clone for Amp<B, P, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B, P, G> Copy for Amp<B, P, G> {}

impl<B, P, G> Default for Amp<B, P, G> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<B, P, G> fmt::Debug for Amp<B, P, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Amp")
    }
}

/// The backend to train with: `Autodiff<Amp<B>>` instead of Burn's `Autodiff<B>`.
///
/// An alias that puts [`Amp`] *outside* Burn's `Autodiff` and adds loss scaling to `backward()`. `C` is Burn's
/// checkpointing strategy, for example `BalancedCheckpointing`.
#[doc(alias("autocast", "torch.amp", "mixed precision"))]
pub type Autodiff<A, C = NoCheckpointing> = <A as WithTape<C>>::Recorded;

/// Turns `Amp<B, P>` into [`Autodiff<Amp<B, P>, C>`](Autodiff).
#[diagnostic::on_unimplemented(
    message = "`burn_amp::Autodiff` goes around `Amp<B>`, and not around `{Self}`",
    label = "not `Amp` over a plain backend",
    note = "write `burn_amp::Autodiff<Amp<Flex>>`: burn-amp's `Autodiff` outside, `Amp` inside it, and the plain backend inside that",
    note = "to train without mixed precision, use `burn::backend::Autodiff<Flex>`"
)]
pub trait WithTape<C> {
    /// The same backend, recording a graph with the checkpointing strategy `C`.
    type Recorded;
}

impl<B, P, C> WithTape<C> for Amp<B, P, NoGraph> {
    type Recorded = Amp<B, P, Tape<C>>;
}

/// Implemented by [`Amp`] over every backend, with or without a graph: the bound of code that is generic over it.
#[diagnostic::on_unimplemented(
    message = "the backend `{Self}` is not made of `burn_amp::Amp`",
    label = "not a backend of burn-amp",
    note = "write `burn_amp::Autodiff<Amp<Flex>>` for training, or `Amp<Flex>` for inference",
    note = "in code that is generic over the backend, add the bound `B: burn_amp::extend::Amped`"
)]
pub trait Amped: Backend<FloatTensorPrimitive = AmpTensor<Self::Plain, Self::Graph>> {
    /// The plain backend that [`Amp`] decorates.
    type Plain: AmpBackend<Device = Self::Device, IntTensorPrimitive = Self::IntTensorPrimitive>;
    /// The source of the configuration.
    type Source: ConfigSource;
    /// [`Tape`] if a graph is recorded, else [`NoGraph`].
    type Graph: Graph<Self::Plain>;
}

/// A backend for training whose tensors without a graph are those of [`Amp`]: the bound of code that trains and is generic
/// over the backend. Implemented by [`Autodiff<Amp<B>>`](Autodiff).
pub trait Trains: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>> {}

impl<B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>> Trains for B {}

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> Amped for Amp<B, P, G> {
    type Plain = B;
    type Source = P;
    type Graph = G;
}

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> BackendTypes for Amp<B, P, G> {
    type Device = B::Device;

    type FloatTensorPrimitive = AmpTensor<B, G>;
    #[cfg(not(burn_0_22))]
    type FloatElem = B::FloatElem;

    type IntTensorPrimitive = B::IntTensorPrimitive;
    #[cfg(not(burn_0_22))]
    type IntElem = B::IntElem;

    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    #[cfg(not(burn_0_22))]
    type BoolElem = B::BoolElem;

    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;

    // Burn cannot replay a graph of calls under autodiff.
    #[cfg(burn_0_22)]
    type GraphPrimitive = burn_backend::GraphUnsupported;
}

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> Backend for Amp<B, P, G> {
    fn ad_enabled(device: &Self::Device) -> bool {
        G::Inner::ad_enabled(device)
    }

    fn memory_persistent_allocations<
        Output: Send,
        Input: Send,
        Func: Fn(Input) -> Output + Send,
    >(
        device: &Self::Device,
        input: Input,
        func: Func,
    ) -> Output {
        G::Inner::memory_persistent_allocations(device, input, func)
    }

    fn memory_cleanup(device: &Self::Device) {
        G::Inner::memory_cleanup(device)
    }

    fn name(device: &Self::Device) -> String {
        format!("amp<{}>", G::Inner::name(device))
    }

    fn seed(device: &Self::Device, seed: u64) {
        G::Inner::seed(device, seed)
    }

    fn sync(device: &Self::Device) -> Result<(), ExecutionError> {
        G::Inner::sync(device)
    }

    fn staging<'a, Iter>(data: Iter, device: &Self::Device)
    where
        Iter: Iterator<Item = &'a mut TensorData>,
    {
        G::Inner::staging(data, device)
    }

    fn supports_dtype(device: &Self::Device, dtype: DType) -> bool {
        G::Inner::supports_dtype(device, dtype)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        G::Inner::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        G::Inner::device_count(type_id)
    }

    #[cfg(burn_0_22)]
    fn flush(device: &Self::Device) -> Result<(), ExecutionError> {
        G::Inner::flush(device)
    }
}

/// A kernel that is called on tensors of `Amp` itself, for example by a `GradScaler`, runs
/// as its reference in Burn's ops.
impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> AmpBackend for Amp<B, P, G> {}
