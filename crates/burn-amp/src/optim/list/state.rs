//! What is kept for a parameter between two steps.

use burn_amp_kernels::{
    AmpBackend,
    optimizer::{Master, MasterOf, StoredMomentOf},
};
use burn_backend::{
    Shape,
    tensor::{Device, FloatTensor, IntTensor},
};

use burn_amp_decorator::internal::Passes;

/// What is kept for a parameter between two steps.
#[derive(Clone, Debug)]
pub struct ListState<B: AmpBackend> {
    /// The number of steps, the last of which is not made if it turns out that one of the passes overflowed. The device
    /// has left the tensors as they were in that case, so this number is all that is undecided.
    pub(super) time: usize,
    pub(super) undecided: Passes<B>,
    pub(super) master: MasterOf<B>,
    /// The moments, as many as the rule has; undefined if `time` is 0.
    pub(super) moments: Vec<StoredMomentOf<B>>,
    /// The shape of the parameter.
    pub(super) shape: Shape,
}

impl<B: AmpBackend> ListState<B> {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            time: 0,
            undecided: Passes::none(),
            master: Master::Parameter,
            moments: Vec::new(),
        }
    }

    /// Whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.moments.is_empty() && matches!(self.master, Master::Parameter)
    }

    /// Decides whether the last step was made; returns `None` if nothing is left to keep. Waits for the device.
    pub(super) fn decided(mut self) -> Option<Self> {
        if std::mem::replace(&mut self.undecided, Passes::none()).overflowed() {
            self.time -= 1;
        }
        if self.time == 0 {
            self.moments.clear();
        }
        (!self.is_empty()).then_some(self)
    }

    pub(super) fn on_device(self, device: &Device<B>) -> Self {
        let float = |tensor: FloatTensor<B>| {
            if B::float_device(&tensor) == *device {
                tensor
            } else {
                B::float_to_device(tensor, device)
            }
        };
        let int = |tensor: IntTensor<B>| {
            if B::int_device(&tensor) == *device {
                tensor
            } else {
                B::int_to_device(tensor, device)
            }
        };
        let moments = self.moments.into_iter();
        Self {
            master: self.master.map(float, int),
            moments: moments.map(|moment| moment.map(float, int)).collect(),
            ..self
        }
    }
}
