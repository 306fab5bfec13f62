//! What is kept for a parameter between two steps.

#[cfg(burn_0_22)]
use burn_amp_kernels::optimizer::Rule;
use burn_amp_kernels::{
    AmpBackend,
    names::{device_of, int_device_of},
    optimizer::{Master, MasterOf, StoredMomentOf},
};
use burn_backend::{
    Shape,
    tensor::{Device, FloatTensor, IntTensor},
};

use crate::loss_scale::Passes;

/// What is kept for a parameter between two steps.
#[derive(Clone, Debug)]
pub struct ListState<B: AmpBackend> {
    /// The number of steps, the last of which is not made if it turns out that one of the passes overflowed. The device
    /// has left the tensors as they were in that case, so this number is all that is undecided.
    pub time: usize,
    /// The passes that decide it.
    pub undecided: Passes<B>,
    /// The master.
    pub master: MasterOf<B>,
    /// The moments, as many as the rule has; undefined if `time` is 0.
    pub moments: Vec<StoredMomentOf<B>>,
    /// The shape of the parameter.
    pub shape: Shape,
}

impl<B: AmpBackend> ListState<B> {
    /// The state before the first step of a parameter of a shape.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            time: 0,
            undecided: Passes::none(),
            master: Master::Parameter,
            moments: Vec::new(),
        }
    }

    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty() && matches!(self.master, Master::Parameter)
    }

    /// Whether it is the state of a parameter of a shape under a rule. Adam may have its largest second moment or not.
    #[cfg(burn_0_22)]
    pub fn fits(&self, rule: &Rule, shape: &Shape) -> bool {
        let is_of_sgd = self.moments.len() == 1;
        let is_of_rule = self.moments.is_empty() || is_of_sgd == matches!(rule, Rule::Sgd(_));
        is_of_rule && self.shape == *shape
    }

    /// Decides whether the last step was made; returns `None` if nothing is left to keep. Waits for the device.
    pub fn decided(mut self) -> Option<Self> {
        if std::mem::replace(&mut self.undecided, Passes::none()).overflowed() {
            self.time -= 1;
        }
        if self.time == 0 {
            self.moments.clear();
        }
        (!self.is_empty()).then_some(self)
    }

    /// Moves the state to a device.
    pub fn on_device(self, device: &Device<B>) -> Self {
        let float = |tensor: FloatTensor<B>| {
            if device_of::<B>(&tensor) == *device {
                tensor
            } else {
                B::float_to_device(tensor, device)
            }
        };
        let int = |tensor: IntTensor<B>| {
            if int_device_of::<B>(&tensor) == *device {
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
