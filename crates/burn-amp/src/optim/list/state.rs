//! What is kept for a parameter between two steps.

use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{Moment, offset},
};
use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{Device, FloatTensor, IntTensor},
};

use super::super::passes::overflowed;
use crate::{loss_scale::Passes, precision};

/// What is kept for a parameter between two steps.
#[derive(Clone, Debug)]
pub struct ListState<B: AmpBackend> {
    /// The number of steps, the last of which is not made if it turns out that one of the passes overflowed. The device
    /// has left the tensors as they were in that case, so this number is all that is undecided.
    pub(super) time: usize,
    pub(super) undecided: Passes<B>,
    pub(super) master: ListMaster<B>,
    /// The moments, as many as the rule has; undefined if `time` is 0.
    pub(super) moments: Vec<Moment<B>>,
    /// The shape of the parameter.
    pub(super) shape: Shape,
}

/// The F32 master of a parameter.
#[derive(Clone, Debug)]
pub(super) enum ListMaster<B: AmpBackend> {
    /// No separate master: the parameter is its own master, or masters are not kept.
    Parameter,
    /// A separate F32 tensor.
    F32(FloatTensor<B>),
    /// The I16 [`offset`] from a BF16 parameter to its master.
    Offset(IntTensor<B>),
}

impl<B: AmpBackend> ListState<B> {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            time: 0,
            undecided: Passes::none(),
            master: ListMaster::Parameter,
            moments: Vec::new(),
        }
    }

    /// Decides whether the last step was made; returns `None` if nothing is left to keep. Waits for the device.
    pub(super) fn decided(mut self) -> Option<Self> {
        if overflowed(&std::mem::replace(&mut self.undecided, Passes::none())) {
            self.time -= 1;
        }
        if self.time == 0 {
            self.moments.clear();
        }
        let is_empty = self.moments.is_empty() && matches!(self.master, ListMaster::Parameter);
        (!is_empty).then_some(self)
    }

    pub(super) fn on_device(mut self, device: &Device<B>) -> Self {
        let moved = |tensor: FloatTensor<B>| {
            if B::float_device(&tensor) == *device {
                tensor
            } else {
                B::float_to_device(tensor, device)
            }
        };
        let moments = self.moments.into_iter();
        self.moments = moments.map(|moment| moment.on_device(device)).collect();
        self.master = match self.master {
            ListMaster::Parameter => ListMaster::Parameter,
            ListMaster::F32(master) => ListMaster::F32(moved(master)),
            ListMaster::Offset(offset) if B::int_device(&offset) != *device => {
                ListMaster::Offset(B::int_to_device(offset, device))
            }
            ListMaster::Offset(offset) => ListMaster::Offset(offset),
        };
        self
    }
}

impl<B: AmpBackend> ListMaster<B> {
    /// Returns the weights in F32, which an optimizer steps.
    pub(super) fn weights_of(self, parameter: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::F32(master) => master,
            Self::Offset(offset) if parameter.dtype() == DType::BF16 => {
                offset::join::<B>(parameter, offset)
            }
            // An offset means nothing without the BF16 parameter that it belongs to.
            Self::Offset(_) | Self::Parameter => precision::cast::<B>(parameter, Precision::F32),
        }
    }
}
