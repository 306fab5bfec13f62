//! F32 master weights for parameters that are stored in half precision.
//!
//! An update is often too small for a parameter in half precision: the neighbours of 1 in BF16 are 0.996 and 1.008, so
//! a step of 1e-3 is lost. The optimizer therefore steps an F32 copy, and the parameter is that copy, rounded.

use burn::{
    grad_clipping::GradientClipping,
    module::AutodiffModule,
    optim::{LearningRate, SimpleOptimizer, adaptor::OptimizerAdaptor},
    tensor::{
        DType, FloatDType, Int, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_kernels::optimizer::{Master, offset, weights};
use burn_backend::{IntDType, tensor::FloatTensor};

use super::{MasterState, Masters, OptimizerConfig};

/// Adapts an optimizer to parameters stored in F16 or BF16.
///
/// [`AmpOptimizer`](super::AmpOptimizer) contains it. Used alone, it replaces the `init` of the optimizer's
/// configuration; records, clipping and several devices work as before:
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::optim::{MasterWeights, Masters};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
///
/// let mut optimizer = MasterWeights::new(AdamConfig::new()).init();
/// # let _ = model.clone();
/// # let mut _fixes_the_types = |grads| optimizer.step(1e-3, model.clone(), grads);
/// // or, with the masters of BF16 parameters in 2 bytes:
/// let mut optimizer = MasterWeights::new(AdamConfig::new()).with_masters(Masters::Split).init();
/// # let mut _fixes_the_types = |grads| optimizer.step(1e-3, model.clone(), grads);
/// ```
///
/// It is itself a [`SimpleOptimizer`] and wraps any other: `OptimizerAdaptor::from(MasterWeights::new(my_optimizer))`.
///
/// The inner optimizer steps F32 tensors: the master, with the gradient cast to F32. The parameter is then the new
/// master, rounded to the dtype in which the parameter is stored. A parameter stored in F32 is passed to the inner
/// optimizer as it is and has no second copy.
///
/// The first step initializes the master from the parameter. From then on the master is authoritative: a change of the
/// parameter outside the optimizer, such as loading another checkpoint into the model alone, is overwritten by the next
/// step.
#[doc(alias("master weights", "O2"))]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MasterWeights<O> {
    inner: O,
    masters: Masters,
}

impl<O> MasterWeights<O> {
    /// Adds F32 masters to `inner`: an optimizer, or the configuration of one.
    pub fn new(inner: O) -> Self {
        Self {
            inner,
            masters: Masters::default(),
        }
    }

    /// Sets the form in which the masters are kept.
    pub fn with_masters(self, masters: Masters) -> Self {
        Self {
            masters: masters.one_by_one(),
            ..self
        }
    }

    /// Makes the optimizer of a configuration, with its gradient clipping, as the configuration's own `init` does.
    pub fn init<A, M>(&self) -> OptimizerAdaptor<MasterWeights<O::Optimizer>, M, A>
    where
        A: AutodiffBackend,
        M: AutodiffModule<A>,
        O: OptimizerConfig<A::InnerBackend>,
    {
        self.adaptor()
    }
}

impl<B: Backend, C: OptimizerConfig<B>> OptimizerConfig<B> for MasterWeights<C> {
    type Optimizer = MasterWeights<C::Optimizer>;

    fn simple(&self) -> Self::Optimizer {
        MasterWeights::new(self.inner.simple()).with_masters(self.masters)
    }

    fn clipping(&self) -> Option<GradientClipping> {
        self.inner.clipping()
    }

    fn masters(&self) -> Masters {
        self.masters
    }
}

impl<O: SimpleOptimizer<B>, B: Backend> SimpleOptimizer<B> for MasterWeights<O> {
    type State<const D: usize> = MasterState<B, D, O::State<D>>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<B, D>,
        grad: Tensor<B, D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<B, D>, Option<Self::State<D>>) {
        let (master, inner) = match state {
            Some(MasterState { master, inner }) => (master, inner),
            None => (Master::Parameter, None),
        };
        let stored = match (tensor.dtype(), &master) {
            (DType::F16, _) => FloatDType::F16,
            (DType::BF16, _) => FloatDType::BF16,
            // A model that was converted back to F32 still starts this step from its masters.
            (DType::F32, Master::F32(_)) => FloatDType::F32,
            _ => {
                let (tensor, inner) = self.inner.step(lr, tensor, grad, inner);
                let state = inner.map(|inner| MasterState {
                    master: Master::Parameter,
                    inner: Some(inner),
                });
                return (tensor, state);
            }
        };

        let weights = weights_of(master, tensor);
        let grad = grad.cast(FloatDType::F32);
        let (weights, inner) = self.inner.step(lr, weights, grad, inner);
        let (tensor, master) = match (self.masters, stored) {
            (Masters::Split, FloatDType::BF16) => {
                let weights = weights.into_primitive().tensor();
                let (parameter, offset) = offset::split::<B>(weights, IntDType::I16);
                let offset = Tensor::from_primitive(offset);
                (float(parameter), Master::Offset(offset))
            }
            (Masters::None, _) => (weights.cast(stored), Master::Parameter),
            (_, FloatDType::F16 | FloatDType::BF16) => {
                (weights.clone().cast(stored), Master::F32(weights))
            }
            (_, _) => (weights.cast(stored), Master::Parameter),
        };
        (tensor, Some(MasterState { master, inner }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &B::Device) -> Self::State<D> {
        MasterState {
            master: state.master.map(
                |master| master.to_device(device),
                |offset| offset.to_device(device),
            ),
            inner: state.inner.map(|inner| O::to_device(inner, device)),
        }
    }
}

/// Returns the F32 master of a parameter.
pub(super) fn weights_of<B: Backend, const D: usize>(
    master: Master<Tensor<B, D>, Tensor<B, D, Int>>,
    parameter: Tensor<B, D>,
) -> Tensor<B, D> {
    let master = master.map(
        |master| master.into_primitive().tensor(),
        |offset| offset.into_primitive(),
    );
    float(weights::<B>(master, parameter.into_primitive().tensor()))
}

fn float<B: Backend, const D: usize>(tensor: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(tensor))
}
