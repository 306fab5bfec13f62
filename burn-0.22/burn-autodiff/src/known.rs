//! Any backend as one that burn-amp knows.

use std::{any::Any, marker::PhantomData};

use burn_amp_kernels::{AmpBackend, Kernel, Memory, kernel::TensorsOf};
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, DeviceId, ExecutionError, TensorData,
    distributed::{
        CollectiveTensor, DistributedConfig, DistributedOps, DistributedParams, ReduceOperation,
        TensorRef,
    },
    tensor::{BoolTensor, Device, FloatTensor, IntTensor},
};
use burn_flex::Flex;

/// The backend `B` with the same tensors and ops.
///
/// An extension is generic over all backends, and burn-amp over those that it has kernels or references for. So this type
/// is one of the latter for any `B`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<B>(PhantomData<B>);

/// A backend that burn-amp has code for has it under this name, too. Which one `B` is, is known from the type of its tensors.
impl<B: Backend> AmpBackend for Known<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        match same::<_, TensorsOf<Flex>>(operands) {
            Ok(operands) => match same(Flex::run(kernel, operands)) {
                Ok(results) => results,
                Err(_) => unreachable!("the operands have the type of the results"),
            },
            Err(operands) => kernel.reference::<Self>(operands),
        }
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        (tensor as &dyn Any)
            .downcast_ref()
            .and_then(Flex::float_memory)
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        (tensor as &dyn Any)
            .downcast_ref()
            .and_then(Flex::int_memory)
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        (tensor as &dyn Any)
            .downcast_ref()
            .and_then(Flex::bool_memory)
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        let [one, other] = [one, other].map(|tensor| (tensor as &dyn Any).downcast_ref());
        one.zip(other)
            .is_some_and(|(one, other)| Flex::is_same(one, other))
    }
}

/// The value as one of another type, if the types are the same.
fn same<T: 'static, U: 'static>(value: T) -> Result<U, T> {
    let mut value = Some(value);
    match (&mut value as &mut dyn Any).downcast_mut::<Option<U>>() {
        Some(same) => Ok(same.take().expect("it was put there")),
        None => Err(value.expect("it was put there")),
    }
}

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
