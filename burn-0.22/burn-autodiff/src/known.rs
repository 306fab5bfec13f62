//! Any backend as one that burn-amp knows.

use std::marker::PhantomData;

use burn_amp_kernels::AmpBackend;
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, DeviceId, ExecutionError, TensorData,
    distributed::{
        CollectiveTensor, DistributedConfig, DistributedOps, DistributedParams, ReduceOperation,
        TensorRef,
    },
    tensor::{Device, FloatTensor},
};

/// The backend `B` with the same tensors and ops.
///
/// An extension is generic over all backends, and burn-amp over those that it has kernels or references for. So this type
/// is one of the latter for any `B`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<B>(PhantomData<B>);

impl<B: Backend> AmpBackend for Known<B> {}

impl<B: BackendTypes> BackendTypes for Known<B> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
    type GraphPrimitive = B::GraphPrimitive;
}

impl<B: Backend> Backend for Known<B> {
    fn name(device: &Self::Device) -> String {
        B::name(device)
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

impl<B: Backend> DistributedOps<Self> for Known<B> {
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
        B::submit_gradient_sync(TensorRef(tensor.0), params)
    }

    fn all_reduce(
        tensor: FloatTensor<Self>,
        op: ReduceOperation,
        devices: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        // SAFETY: the tensor is wrapped again at once, and the caller resolves what is returned.
        let tensor = unsafe { B::all_reduce(tensor, op, devices).assume_resolved() };
        CollectiveTensor::new(tensor)
    }

    fn sync_collective(device: &Device<Self>) {
        B::sync_collective(device)
    }
}
