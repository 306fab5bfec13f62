//! The decorator itself.

use std::{fmt, marker::PhantomData};

use burn_amp_core::Class;
use burn_amp_kernels::Kernels;
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, ExecutionError, TensorData, tensor::FloatTensor,
};

use crate::{
    AmpTensor, FromFile, PolicySource,
    cast::call::Call,
    graph::{Graph, NoGraph},
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
/// `P` names where the policy comes from, see [`PolicySource`]. `G` says whether a graph is recorded for a backward
/// pass; write [`Autodiff<Amp<B, P>>`](crate::Autodiff) instead of naming it.
pub struct Amp<B, P = FromFile, G = NoGraph>(PhantomData<(B, P, G)>);

// By hand, because derives would ask `P` for what only `PhantomData` needs.
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

impl<B: Kernels, P: PolicySource, G: Graph<B>> Amp<B, P, G> {
    /// Runs an op that Burn does not know, such as a kernel of your own, under a cast class.
    ///
    /// `op` gets the operands in the dtype that the class gives them, all of one dtype, on the inner backend.
    ///
    /// ```
    /// use burn::tensor::{backend::Backend, ops::FloatTensor};
    /// use burn_amp::{Amp, Class, Graph, Kernels, PolicySource};
    ///
    /// trait ScaledMatmul: Backend {
    ///     fn scaled_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, by: f32) -> FloatTensor<Self>;
    /// }
    ///
    /// impl<B: Kernels, P: PolicySource, G: Graph<B>> ScaledMatmul for Amp<B, P, G>
    /// where
    ///     G::Inner: ScaledMatmul,
    /// {
    ///     fn scaled_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, by: f32) -> FloatTensor<Self> {
    ///         Self::custom_op(Class::Low, [lhs, rhs], |[lhs, rhs]| G::Inner::scaled_matmul(lhs, rhs, by))
    ///     }
    /// }
    /// ```
    pub fn custom_op<const N: usize>(
        class: Class,
        operands: [AmpTensor<B, G>; N],
        op: impl FnOnce([FloatTensor<G::Inner>; N]) -> FloatTensor<G::Inner>,
    ) -> AmpTensor<B, G> {
        const { assert!(N > 0, "the policy of a custom op is that of its operands") };
        let mut call = Call::<B>::custom(class);
        operands.iter().for_each(|operand| call.float(operand));
        let call = call.decide();
        call.result(op(operands.map(|operand| call.cast(operand))))
    }
}

impl<B: Kernels, P: PolicySource, G: Graph<B>> BackendTypes for Amp<B, P, G> {
    type Device = B::Device;

    type FloatTensorPrimitive = AmpTensor<B, G>;
    type FloatElem = B::FloatElem;

    type IntTensorPrimitive = B::IntTensorPrimitive;
    type IntElem = B::IntElem;

    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type BoolElem = B::BoolElem;

    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
}

impl<B: Kernels, P: PolicySource, G: Graph<B>> Backend for Amp<B, P, G> {
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
}

/// Tensors of `Amp` that come to a kernel from outside, such as gradients in a [`GradScaler`](crate::optim::GradScaler), are
/// computed with in Burn's ops.
impl<B: Kernels, P: PolicySource, G: Graph<B>> Kernels for Amp<B, P, G> {}
