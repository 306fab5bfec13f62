//! F32 master weights for parameters that are stored in half precision.

use burn::{
    optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource},
    tensor::{DType, Device, Tensor},
};

/// The name of the master in a record, and the prefix of the inner state.
const MASTER: &str = "master";
const INNER: &str = "inner";

/// An optimizer that steps an F32 copy of each parameter that is stored in half precision, the *master*. The parameter is
/// the master, rounded. A parameter in another dtype is stepped as it is.
///
/// An update is often too small for a parameter in half precision: the neighbours of 1 in BF16 are 0.996 and 1.008, so a
/// step of 1e-3 is lost.
///
/// ```
/// use burn::optim::{Adam, AdamConfig, ModuleOptimizer};
/// use burn_amp::optim::MasterWeights;
///
/// let adam: Adam = AdamConfig::new().build();
/// let optimizer: ModuleOptimizer = MasterWeights::new(adam).into();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MasterWeights<O>(O);

/// What [`MasterWeights`] keeps of a parameter: the state of the optimizer, and the F32 copy.
#[derive(Clone, Debug)]
pub struct MasterState<S, const D: usize> {
    inner: Option<S>,
    master: Option<Tensor<D>>,
}

impl<O> MasterWeights<O> {
    /// Wraps an optimizer.
    pub fn new(inner: O) -> Self {
        Self(inner)
    }
}

impl<O: Optimizer> Optimizer for MasterWeights<O> {
    type State<const D: usize> = MasterState<O::State<D>, D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let (inner, master) = match state {
            Some(MasterState { inner, master }) => (inner, master),
            None => (None, None),
        };
        let stored = tensor.dtype();
        if !matches!(stored, DType::F16 | DType::BF16) {
            // A model that was converted back to F32 still starts this step from its masters.
            let (tensor, inner) = self.0.step(lr, master.unwrap_or(tensor), grad, inner);
            let state = inner.map(|inner| MasterState {
                inner: Some(inner),
                master: None,
            });
            return (tensor, state);
        }
        let master = master.unwrap_or_else(|| tensor.cast(DType::F32));
        let (master, inner) = self.0.step(lr, master, grad.cast(DType::F32), inner);
        let state = MasterState {
            inner,
            master: Some(master.clone()),
        };
        (master.cast(stored), Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        MasterState {
            inner: state.inner.map(|inner| O::to_device(inner, device)),
            master: state.master.map(|master| master.to_device(device)),
        }
    }
}

impl<S: RecordState, const D: usize> RecordState for MasterState<S, D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(inner) = &self.inner {
            inner.state_flatten(&inside(prefix), out);
        }
        if let Some(master) = &self.master {
            out.push_tensor(prefix, MASTER, master.to_data());
        }
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        let master = src.take_tensor(prefix, MASTER);
        let master = master.map(|data| Tensor::from_data(data, device));
        let inner = inside(prefix);
        let inner = match src.has_under(&inner) {
            true => Some(S::state_unflatten(&inner, src, device)?),
            false => None,
        };
        (master.is_some() || inner.is_some()).then_some(Self { inner, master })
    }
}

fn inside(prefix: &str) -> String {
    format!("{prefix}.{INNER}")
}
