//! [`Kernel`]: an op of this crate as data. [`AmpBackend`]: who runs it.

use std::fmt;

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{
    Backend,
    ops::AttentionModuleOptions,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
#[cfg(feature = "cubecl")]
use burn_cubecl::CubeRuntime;
#[cfg(feature = "flex")]
use burn_flex::Flex;

#[cfg(feature = "cubecl")]
pub use crate::tensors::{CubeTensors, Launched};
pub use crate::tensors::{Graph, Meta, Tensors, TensorsOf};
use crate::{memory::Memory, reading::Reading};

/// An op of this crate: its numbers. Its tensors are the operands of [`AmpBackend::run`].
///
/// The kernel and the reference compute the same. A kernel of yours implements this trait, and needs nothing else.
pub trait Kernel: Clone + fmt::Debug + Send + Sync + 'static {
    /// The name of the op, for Fusion and in reports.
    const NAME: &'static str;

    /// Whether the op is no launch of its own, because it has no kernel.
    const IS_COMPOSED: bool = false;

    /// Whether Fusion computes the reference, as it makes one kernel of elementwise ops and their neighbours.
    const IS_FUSED: bool = Self::IS_COMPOSED;

    /// Whether the kernel reads F64. Most compute in F32, and leave F64 to the reference.
    const READS_F64: bool = false;

    /// Describes the results for Fusion, unless it computes the reference: one like the first operand, if the op does not say
    /// otherwise.
    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [operands.floats[0].clone()].into()
    }

    /// Describes what the kernel reads: all operands, unless the op says otherwise.
    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        operands
    }

    /// Computes with Burn's ops.
    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B>;

    /// Computes with the kernel.
    ///
    /// # Errors
    ///
    /// Returns the operands if there is no kernel for them. Then the reference computes.
    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Err(operands)
    }

    /// Computes on the CPU, over the bytes of the tensors.
    ///
    /// # Errors
    ///
    /// Returns the operands if the op has no such code, or none for them. Then the reference computes.
    #[cfg(feature = "flex")]
    fn on_host(&self, operands: TensorsOf<Flex>) -> Result<TensorsOf<Flex>, TensorsOf<Flex>> {
        Err(operands)
    }

    /// Computes the op in a graph, as one node. Without a node of its own, the graph has those of the reference.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        self.reference::<Autodiff<B, C>>(operands)
    }
}

/// A backend that runs the ops of this crate. With the provided methods it computes the references.
#[diagnostic::on_unimplemented(
    message = "burn-amp does not know the backend `{Self}`",
    label = "no kernels for this backend",
    note = "turn on burn-amp's feature for the backend (`flex`, `cuda`, `vulkan`, `cubecl`, `tch`; with Burn's `fusion` also burn-amp's)",
    note = "or, for a backend of your own: `impl burn_amp::AmpBackend for MyBackend {{}}`",
    note = "or, in code that is generic over the plain backend: the bound `B: burn_amp::AmpBackend`"
)]
pub trait AmpBackend: Backend {
    /// Runs an op: by its kernel if the backend has one for it, otherwise by the reference.
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        kernel.reference::<Self>(operands)
    }

    /// Whether the backend makes one kernel of elementwise ops that follow each other, as Burn's Fusion does. Then a cast
    /// costs nothing beside the op that reads its result.
    fn fuses_elementwise() -> bool {
        false
    }

    /// Prepares the process, before the first tensor of a device on which something is lowered.
    fn prepare(device: &Self::Device) {
        let _ = device;
    }

    /// Whether products of operands in half precision run on the device. A backend that has them and cannot launch them says no;
    /// then `compute = "auto"` is F32.
    fn runs_low_products(device: &Self::Device) -> bool {
        let _ = device;
        true
    }

    /// Returns a weak reference to the memory of a float tensor; `None` where the backend has none.
    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Whether both are clones of one tensor. A backend that cannot say so returns `false`.
    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        let _ = (one, other);
        false
    }

    /// Returns the memory of an int tensor, as [`float_memory`](Self::float_memory) does.
    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Returns the memory of a bool tensor, as [`float_memory`](Self::float_memory) does.
    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        let _ = tensor;
        None
    }

    /// Starts to copy a tensor to the host, and returns its values without waiting for the device.
    ///
    /// This default polls the backend's read once. That is enough where a read begins with its first poll and waits in a
    /// later one.
    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        Reading::begin(Self::float_into_data(tensor))
    }

    /// Whether Burn's `attention` is a kernel of this backend, which accumulates in F32, for calls with these options.
    /// Otherwise the backend composes it of several ops in the dtype of its operands.
    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        let _ = (options, has_bias);
        true
    }
}
