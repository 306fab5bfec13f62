//! `DistributedBackend`, forwarded to the inner backend.

use burn_amp_kernels::AmpBackend;
use burn_backend::{
    DeviceId,
    distributed::{
        CollectiveTensor, DistributedBackend, DistributedConfig, DistributedParams,
        ReduceOperation, TensorRef,
    },
    tensor::FloatTensor,
};

use crate::{
    backend::Amp,
    graph::{Graph, Recorded},
    policy::ConfigSource,
    tensor::{AmpTensor, Parts},
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> DistributedBackend for Amp<B, P, G>
where
    G::Inner: DistributedBackend,
{
    fn start_communication_server(devices: &[Self::Device], config: DistributedConfig) {
        G::Inner::start_communication_server(devices, config);
    }

    fn close_communication_server(device: &Self::Device) {
        G::Inner::close_communication_server(device);
    }

    fn register_sync_parameters(device: &Self::Device, distributed_params: Vec<DistributedParams>) {
        G::Inner::register_sync_parameters(device, distributed_params);
    }

    fn submit_sync_collective(device: &Self::Device) {
        G::Inner::submit_sync_collective(device);
    }

    fn submit_gradient_sync(tensor: TensorRef<Self>, distributed_params: DistributedParams) {
        // SAFETY: the pointer is valid for this call, as `DistributedBackend` requires of its callers.
        let tensor = unsafe { &mut *tensor.0 };
        G::Inner::submit_gradient_sync(TensorRef(tensor.in_place()), distributed_params);
    }

    fn all_reduce(
        tensor: FloatTensor<Self>,
        op: ReduceOperation,
        device_ids: Vec<DeviceId>,
    ) -> CollectiveTensor<Self> {
        let parts = tensor.apart();
        // SAFETY: the tensor is wrapped again at once, and the caller resolves what is returned.
        let values =
            unsafe { G::Inner::all_reduce(parts.values, op, device_ids).assume_resolved() };
        CollectiveTensor::new(AmpTensor::of(Parts {
            values,
            role: parts.role.after_move(),
            recorded: Recorded::nothing(),
            ..parts
        }))
    }

    fn sync_collective(device: &Self::Device) {
        G::Inner::sync_collective(device);
    }
}
