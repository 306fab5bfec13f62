//! Any backend as one that burn-amp knows.

use std::{
    any::{Any, TypeId},
    marker::PhantomData,
};

use burn_amp_kernels::{AmpBackend, Kernel, Memory, Reading, kernel::TensorsOf};
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsageSet, DeviceId, ExecutionError, TensorData,
    distributed::{
        CollectiveTensor, DistributedConfig, DistributedOps, DistributedParams, ReduceOperation,
        TensorRef,
    },
    ops::{AttentionModuleOptions, FloatTensorOps as _},
    tensor::{BoolTensor, Device, FloatTensor, IntTensor},
};
use burn_flex::Flex;

/// The backend `B` with the same tensors and ops.
///
/// An extension is generic over all backends, and burn-amp over those that it has kernels or references for. So this type
/// is one of the latter for any `B`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<B>(PhantomData<B>);

/// Evaluates an expression for each backend `$Of` that burn-amp has code for, and returns the first value that is something.
macro_rules! first_of_known {
    ($Of:ident => $found:expr) => {{
        type $Of = Flex;
        if let Some(found) = $found {
            return found;
        }
    }
    #[cfg(cube_kernels)]
    {
        type $Of = burn_cubecl::Cube;
        if let Some(found) = $found {
            return found;
        }
    }};
}

/// A backend that burn-amp has code for has it under this name, too. Which one `B` is, is known from the type of its tensors.
impl<B: Backend> AmpBackend for Known<B> {
    fn run<K: Kernel>(kernel: K, operands: TensorsOf<Self>) -> TensorsOf<Self> {
        let mut operands = Some(operands);
        first_of_known!(Of => {
            taken::<_, TensorsOf<Of>>(&mut operands)
                .map(|operands| back(Of::run(kernel.clone(), operands)))
        });
        let operands = operands.expect("nobody has taken them");
        kernel.reference::<Self>(operands)
    }

    fn fuses_elementwise() -> bool {
        first_of_known!(Of => is::<FloatTensor<B>, FloatTensor<Of>>().then(Of::fuses_elementwise));
        false
    }

    fn prepare(device: &Device<B>) {
        first_of_known!(Of => seen(device).map(Of::prepare));
    }

    fn runs_low_products(device: &Device<B>) -> bool {
        first_of_known!(Of => seen(device).map(Of::runs_low_products));
        true
    }

    fn float_memory(tensor: &FloatTensor<Self>) -> Option<Memory> {
        first_of_known!(Of => seen(tensor).map(Of::float_memory));
        None
    }

    fn int_memory(tensor: &IntTensor<Self>) -> Option<Memory> {
        first_of_known!(Of => seen(tensor).map(Of::int_memory));
        None
    }

    fn bool_memory(tensor: &BoolTensor<Self>) -> Option<Memory> {
        first_of_known!(Of => seen(tensor).map(Of::bool_memory));
        None
    }

    fn is_same(one: &FloatTensor<Self>, other: &FloatTensor<Self>) -> bool {
        first_of_known!(Of => seen(one)
            .zip(seen(other))
            .map(|(one, other)| Of::is_same(one, other)));
        false
    }

    fn read_later(tensor: FloatTensor<Self>) -> Reading {
        let mut tensor = Some(tensor);
        first_of_known!(Of => taken(&mut tensor).map(Of::read_later));
        let tensor = tensor.expect("nobody has taken it");
        Reading::begin(Self::float_into_data(tensor))
    }

    fn has_attention_kernel(options: &AttentionModuleOptions, has_bias: bool) -> bool {
        first_of_known!(Of => is::<FloatTensor<B>, FloatTensor<Of>>()
            .then(|| Of::has_attention_kernel(options, has_bias)));
        true
    }
}

/// Whether two types are the same.
fn is<T: 'static, U: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<U>()
}

/// The value as one of another type, if the types are the same.
fn seen<T: 'static, U: 'static>(value: &T) -> Option<&U> {
    (value as &dyn Any).downcast_ref()
}

/// Takes the value as one of another type, if the types are the same.
fn taken<T: 'static, U: 'static>(value: &mut Option<T>) -> Option<U> {
    (value as &mut dyn Any).downcast_mut::<Option<U>>()?.take()
}

/// A value of another type, which is the same.
fn back<T: 'static, U: 'static>(value: T) -> U {
    taken(&mut Some(value)).expect("results have the types of operands")
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
