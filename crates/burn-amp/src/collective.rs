//! Ranks that agree through Burn's all-reduce.

use burn::{
    collective::{PeerId, ReduceOperation, all_reduce},
    tensor::{ElementConversion, Tensor, backend::Backend},
};

use burn_amp_decorator::ranks::{Ranks, RanksError};

/// Connects ranks through `burn::collective`, over the backend on which the gradients are reduced.
///
/// `B` is the training backend's `InnerBackend`, on which the peer must be registered:
///
/// ```no_run
/// use burn::{backend::Flex, collective::{self, CollectiveConfig, PeerId, ReduceOperation}};
/// use burn::{optim::GradientsParams, tensor::backend::AutodiffBackend};
/// use burn_amp::{Amp, Autodiff, ranks::{self, Collective}};
///
/// type B = Autodiff<Amp<Flex>>;
/// type Inner = <B as AutodiffBackend>::InnerBackend;
///
/// // On the thread of each rank:
/// let (rank, device) = (PeerId::from(0), Default::default());
/// collective::register::<Inner>(rank, device, CollectiveConfig::default().with_num_devices(4)).unwrap();
/// let _joined = ranks::join::<B>(&device, Collective::<Inner>::new(rank, &device));
/// // The loop as with plain Burn: `grads.all_reduce::<Inner>(rank, ReduceOperation::Mean)` before `optimizer.step`
/// ```
#[derive(Debug)]
pub struct Collective<B: Backend> {
    peer: PeerId,
    device: B::Device,
}

impl<B: Backend> Collective<B> {
    /// The rank that is registered as `peer`. The flag is reduced as a tensor on `device`.
    pub fn new(peer: PeerId, device: &B::Device) -> Self {
        Self {
            peer,
            device: device.clone(),
        }
    }
}

impl<B: Backend> Ranks for Collective<B> {
    /// Reduces and reads one element, so the ranks wait for each other.
    fn any(&self, found_inf: bool) -> Result<bool, RanksError> {
        let flag = Tensor::<B, 1>::from_floats([f32::from(u8::from(found_inf))], &self.device);
        let flag = flag.into_primitive().tensor();
        let sum = all_reduce::<B>(self.peer, flag, ReduceOperation::Sum)
            .map_err(|error| RanksError(format!("{error:?}")))?;
        let sum: f32 = Tensor::<B, 1>::from_primitive(burn::tensor::TensorPrimitive::Float(sum))
            .into_scalar()
            .elem();
        Ok(sum > 0.0)
    }
}
