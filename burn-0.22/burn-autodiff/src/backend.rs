//! [`Autodiff`]: the backend type that burn-dispatch names.

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use burn_amp_decorator::{
    Amp, AmpTensor, Context, FromFile, NoGraph, Tape, device_policy, optimizer::erased,
};
use burn_autodiff_engine::{
    Autodiff as Recorded,
    checkpoint::strategy::{CheckpointStrategy, NoCheckpointing},
    chosen::{self, Chosen},
    grads::Gradients,
};
use burn_backend::{
    AutodiffBackend, Backend, BackendTypes, DType, DTypeUsageSet, DeviceId, ExecutionError,
    GraphUnsupported, TensorData, TensorMetadata,
    distributed::{
        CollectiveTensor, DistributedConfig, DistributedOps, DistributedParamId, DistributedParams,
        ReduceOperation, TensorRef,
    },
    tensor::{BoolTensor, Device, FloatTensor, IntTensor, QuantizedTensor},
};

use crate::{
    known::Known,
    ops::{DifferentiableTransfer, amped, recorded},
    tensor::AutodiffTensor,
};

/// Burn's autodiff over the backend `B`, with mixed precision: each op runs in the precision that the policy gives it, and
/// the loss is scaled. `C` is the checkpointing strategy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Autodiff<B, C = NoCheckpointing>(PhantomData<(B, C)>);

/// burn-amp's backend, with a graph and without.
pub(crate) type Amped<B> = Amp<Known<B>, FromFile, Tape<Chosen>>;
type Plain<B> = Amp<Known<B>, FromFile, NoGraph>;

/// The gradients of a pass as burn-amp has them, in the envelope of Burn's.
type Scaled<B> = Arc<Mutex<burn_amp_decorator::Gradients<Known<B>>>>;

impl<B: BackendTypes, C: CheckpointStrategy> BackendTypes for Autodiff<B, C> {
    type Device = B::Device;
    type FloatTensorPrimitive = AutodiffTensor<B>;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
    type GraphPrimitive = GraphUnsupported;
}

impl<B: Backend, C: CheckpointStrategy> Backend for Autodiff<B, C> {
    fn ad_enabled(_: &Self::Device) -> bool {
        true
    }

    fn name(device: &Self::Device) -> String {
        Amped::<B>::name(device)
    }

    fn seed(device: &Self::Device, seed: u64) {
        B::seed(device, seed)
    }

    fn sync(device: &Self::Device) -> Result<(), ExecutionError> {
        B::sync(device)
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
        B::memory_persistent_allocations(device, input, func)
    }

    fn memory_cleanup(device: &Self::Device) {
        B::memory_cleanup(device)
    }

    fn staging<'a, Iter>(data: Iter, device: &Self::Device)
    where
        Iter: Iterator<Item = &'a mut TensorData>,
    {
        B::staging(data, device)
    }

    fn supports_dtype(device: &Self::Device, dtype: DType) -> bool {
        device_policy::answer::<Amped<B>>(device);
        B::supports_dtype(device, dtype)
    }

    fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet {
        B::dtype_usage(device, dtype)
    }

    fn device_count(type_id: u16) -> usize {
        B::device_count(type_id)
    }

    fn flush(device: &Self::Device) -> Result<(), ExecutionError> {
        B::flush(device)
    }
}

impl<B: Backend, C: CheckpointStrategy> DistributedOps<Self> for Autodiff<B, C> {
    fn start_communication_server(devices: &[Device<Self>], config: DistributedConfig) {
        B::start_communication_server(devices, config)
    }

    fn close_communication_server(device: &Device<Self>) {
        B::close_communication_server(device)
    }

    fn register_sync_parameters(device: &Device<Self>, params: Vec<DistributedParams>) {
        B::register_sync_parameters(device, params)
    }

    fn submit_sync_collective(device: &Device<Self>) {
        B::submit_sync_collective(device)
    }

    fn submit_gradient_sync(tensor: TensorRef<Self>, params: DistributedParams) {
        // SAFETY: the pointer is valid for this call, as Burn requires of its callers.
        let tensor = unsafe { &mut *tensor.0 };
        let mut tracked = tensor.clone().tracked();
        Amped::<B>::submit_gradient_sync(TensorRef(&mut tracked), params);
        *tensor = AutodiffTensor::of(tracked);
    }

    fn all_reduce(
        tensor: FloatTensor<Self>,
        op: ReduceOperation,
        devices: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        // SAFETY: the tensor is wrapped again at once, and the caller resolves what is returned.
        let tensor = Amped::<B>::all_reduce(tensor.tracked(), op, devices);
        let tensor = unsafe { tensor.assume_resolved() };
        CollectiveTensor::new(AutodiffTensor::of(tensor))
    }

    fn sync_collective(device: &Device<Self>) {
        B::sync_collective(device)
    }
}

impl<B: Backend, C: CheckpointStrategy> AutodiffBackend for Autodiff<B, C> {
    type InnerBackend = B;
    type Gradients = Gradients;

    fn backward(tensor: FloatTensor<Self>) -> Gradients {
        let scaled: Scaled<B> = Arc::new(Mutex::new(chosen::with::<C, _>(|| {
            Amped::<B>::backward(tensor.tracked())
        })));
        Gradients::enveloping(scaled)
    }

    fn grad(tensor: &FloatTensor<Self>, grads: &Gradients) -> Option<FloatTensor<B>> {
        let scaled = scaled::<B>(grads);
        Amped::<B>::grad(&tensor.clone().tracked(), &lock(&scaled)).map(AmpTensor::into_inner)
    }

    fn grad_remove(tensor: &FloatTensor<Self>, grads: &mut Gradients) -> Option<FloatTensor<B>> {
        let scaled = scaled::<B>(grads);
        Amped::<B>::grad_remove(&tensor.clone().tracked(), &mut lock(&scaled))
            .map(AmpTensor::into_inner)
    }

    fn grad_replace(tensor: &FloatTensor<Self>, grads: &mut Gradients, grad: FloatTensor<B>) {
        let scaled = scaled::<B>(grads);
        Amped::<B>::grad_replace(
            &tensor.clone().tracked(),
            &mut lock(&scaled),
            without_graph::<B>(grad),
        )
    }

    fn inner(tensor: FloatTensor<Self>) -> FloatTensor<B> {
        Amped::<B>::inner(tensor.tracked()).into_inner()
    }

    fn from_inner(tensor: FloatTensor<B>) -> FloatTensor<Self> {
        let tensor = erased::enters().unwrap_or_else(|| without_graph::<B>(tensor));
        AutodiffTensor::of(Amped::<B>::from_inner(tensor))
    }

    fn int_inner(tensor: IntTensor<Self>) -> IntTensor<B> {
        tensor
    }

    fn bool_inner(tensor: BoolTensor<Self>) -> BoolTensor<B> {
        tensor
    }

    fn q_inner(tensor: QuantizedTensor<Self>) -> QuantizedTensor<B> {
        tensor
    }

    fn int_from_inner(tensor: IntTensor<B>) -> IntTensor<Self> {
        tensor
    }

    fn bool_from_inner(tensor: BoolTensor<B>) -> BoolTensor<Self> {
        tensor
    }

    fn q_from_inner(tensor: QuantizedTensor<B>) -> QuantizedTensor<Self> {
        tensor
    }

    fn set_distributed_params(
        tensor: FloatTensor<Self>,
        id: DistributedParamId,
    ) -> FloatTensor<Self> {
        AutodiffTensor::of(Amped::<B>::set_distributed_params(tensor.tracked(), id))
    }

    fn distributed_params(tensor: &FloatTensor<Self>) -> Option<DistributedParams> {
        Amped::<B>::distributed_params(&tensor.clone().tracked())
    }

    fn is_distributed(tensor: &FloatTensor<Self>) -> bool {
        Amped::<B>::is_distributed(&tensor.clone().tracked())
    }
}

impl<B: Backend, C: CheckpointStrategy> Autodiff<B, C> {
    /// Transfers a tensor to another backend, and its gradient back, in the dtype that the program sees.
    pub fn to_backend<Dst: Backend, Adapter: DifferentiableTransfer<B, Dst>>(
        tensor: FloatTensor<Self>,
        device: &Dst::Device,
    ) -> AutodiffTensor<Dst> {
        let tensor = recorded::<B>(&tensor);
        amped::<Dst>(Recorded::<B, C>::to_backend::<Dst, Adapter>(tensor, device))
    }
}

/// A plain tensor under the policy of its device.
fn without_graph<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<Plain<B>> {
    let context = Context::<Known<B>>::of::<FromFile>(&tensor.device());
    AmpTensor::new(tensor, context)
}

/// The gradients in the envelope.
///
/// # Panics
///
/// Panics inside a backward pass, where gradients are those of Burn's autodiff, and have no tensor of a program.
fn scaled<B: Backend>(grads: &Gradients) -> Scaled<B> {
    grads
        .enveloped()
        .expect("these are the gradients of a whole backward pass")
}

/// Gradients are taken out whole, so they are sound after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
