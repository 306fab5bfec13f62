//! F32 master weights for parameters that are stored in half.
//!
//! An update is often too small for a half-precision parameter: next to 1, BF16 has nothing between 0.996 and 1.008, and
//! a step of 1e-3 is lost. The optimizer therefore steps a F32 copy, and the parameter is the copy, rounded.

use burn::{
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::{
        LearningRate, Optimizer, SimpleOptimizer, adaptor::OptimizerAdaptor, record::AdaptorRecord,
    },
    record::{PrecisionSettings, Record},
    tensor::{
        DType, FloatDType, Int, Tensor, TensorData,
        backend::{AutodiffBackend, Backend},
    },
};
use serde::{Deserialize, Serialize};

use super::{OptimizerConfig, split};
use crate::store::store_param;

/// Adapts an optimizer to parameters stored in F16 or BF16.
///
/// Use it in the place of the optimizer's own `init`; records, clipping and devices work as before:
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::optim::{MasterWeights, Masters};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
///
/// let mut optimizer = MasterWeights::new(AdamConfig::new()).init();
/// // or, with the masters of BF16 parameters in 2 bytes:
/// # let _ = model.clone();
/// # let mut _fixes_the_types = |grads| optimizer.step(1e-3, model.clone(), grads);
/// let mut optimizer = MasterWeights::new(AdamConfig::new()).with_masters(Masters::Split).init();
/// # let mut _fixes_the_types = |grads| optimizer.step(1e-3, model.clone(), grads);
/// ```
///
/// It is a [`SimpleOptimizer`] itself, over any other: `OptimizerAdaptor::from(MasterWeights::new(my_optimizer))`.
///
/// The step is the inner optimizer's, on F32 tensors: the master and the gradient, cast to F32. The parameter is then the
/// new master, rounded to the dtype it is stored in. A parameter stored in F32 goes straight to the inner optimizer and
/// has no second copy.
///
/// The first step takes the parameter's values for the master. From then on the master counts: a change of the parameter
/// outside the optimizer, such as loading another checkpoint into the model alone, is overwritten by the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MasterWeights<O> {
    inner: O,
    masters: Masters,
}

/// Where the F32 masters are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Masters {
    /// In F32 beside the parameter, 4 bytes each.
    #[default]
    F32,
    /// For BF16 parameters, 2 bytes beside the parameter that make it the F32 master, bit for bit; 4 bytes for F16.
    ///
    /// The parameter is the master rounded to the nearest as with [`F32`](Self::F32), but ties, one in 65536, go away
    /// from zero and not to even. Masters below 1e-28 are kept to 2^-117. The parameters must be saved losslessly: with a
    /// recorder of full precision.
    Split,
    /// Nowhere: the step begins and ends at the rounded parameter, and small updates are lost. Preset `o3` by the letter.
    None,
}

impl<O> MasterWeights<O> {
    /// F32 masters for `inner`: an optimizer, or the configuration of one.
    pub fn new(inner: O) -> Self {
        Self {
            inner,
            masters: Masters::default(),
        }
    }

    /// Where the masters are.
    pub fn with_masters(self, masters: Masters) -> Self {
        Self { masters, ..self }
    }
}

impl<C: OptimizerConfig> MasterWeights<C> {
    /// The optimizer of a configuration, with its gradient clipping, as Burn's own `init` makes it.
    pub fn init<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
    ) -> OptimizerAdaptor<MasterWeights<C::Optimizer<B::InnerBackend>>, M, B> {
        let inner = self.inner.adaptor::<B, M>();
        let adaptor = OptimizerAdaptor::from(MasterWeights {
            inner: inner.optim().clone(),
            masters: self.masters,
        });
        match inner.grad_clipping() {
            Some(clipping) => adaptor.with_grad_clipping(clipping.clone()),
            None => adaptor,
        }
    }

    /// The configuration of the inner optimizer.
    pub(crate) fn config(&self) -> &C {
        &self.inner
    }

    /// Where the masters are.
    pub(crate) fn masters(&self) -> Masters {
        self.masters
    }
}

/// The state of [`MasterWeights`] for one parameter: the master, and the inner optimizer's state `S`.
#[derive(Clone, Debug)]
pub struct MasterState<B: Backend, const D: usize, S> {
    master: Master<B, D>,
    inner: Option<S>,
}

#[derive(Clone, Debug)]
enum Master<B: Backend, const D: usize> {
    /// The parameter is its own master, or has none.
    Parameter,
    F32(Tensor<B, D>),
    /// The I16 beside a BF16 parameter, see [`split`].
    Beside(Tensor<B, D, Int>),
}

impl<B: Backend, const D: usize> Master<B, D> {
    /// The master in F32.
    fn weights(self, parameter: Tensor<B, D>) -> Tensor<B, D> {
        match self {
            Self::F32(master) => master,
            Self::Beside(beside) if parameter.dtype() == DType::BF16 => {
                split::join(parameter, beside)
            }
            // Without the BF16 parameter it was taken from, what stood beside it has no meaning.
            Self::Beside(_) | Self::Parameter => parameter.cast(FloatDType::F32),
        }
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
        let stored = tensor.dtype();
        let (master, inner) = match state {
            Some(MasterState { master, inner }) => (master, inner),
            None => (Master::Parameter, None),
        };
        let low = match (stored, &master) {
            (DType::F16, _) => FloatDType::F16,
            (DType::BF16, _) => FloatDType::BF16,
            // A model that was converted back to F32 still gets its masters' last step.
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

        let weights = master.weights(tensor);
        let (weights, inner) = self
            .inner
            .step(lr, weights, grad.cast(FloatDType::F32), inner);
        let (tensor, master) = match (self.masters, low) {
            (Masters::Split, FloatDType::BF16) => {
                let (parameter, beside) = split::split(weights);
                (parameter, Master::Beside(beside))
            }
            (Masters::F32 | Masters::Split, FloatDType::F16 | FloatDType::BF16) => {
                (weights.clone().cast(low), Master::F32(weights))
            }
            (Masters::F32 | Masters::Split | Masters::None, _) => {
                (weights.cast(low), Master::Parameter)
            }
        };
        (tensor, Some(MasterState { master, inner }))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &B::Device) -> Self::State<D> {
        MasterState {
            master: match state.master {
                Master::Parameter => Master::Parameter,
                Master::F32(master) => Master::F32(master.to_device(device)),
                Master::Beside(beside) => Master::Beside(beside.to_device(device)),
            },
            inner: state.inner.map(|inner| O::to_device(inner, device)),
        }
    }
}

/// [`MasterState`] in a file. Masters are stored in their own dtype whatever the recorder's settings say: rounded to half,
/// they would be no masters.
#[derive(Clone, Serialize, Deserialize)]
pub struct MasterStateItem<S> {
    master: MasterItem,
    inner: Option<S>,
}

#[derive(Clone, Serialize, Deserialize)]
enum MasterItem {
    Parameter,
    F32(TensorData),
    Beside(TensorData),
}

impl<B: Backend, const D: usize, R: Record<B>> Record<B> for MasterState<B, D, R> {
    type Item<S: PrecisionSettings> = MasterStateItem<R::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        MasterStateItem {
            master: match self.master {
                Master::Parameter => MasterItem::Parameter,
                Master::F32(master) => MasterItem::F32(master.into_data()),
                Master::Beside(beside) => MasterItem::Beside(beside.into_data()),
            },
            inner: self.inner.map(Record::into_item),
        }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            master: match item.master {
                MasterItem::Parameter => Master::Parameter,
                MasterItem::F32(data) => Master::F32(Tensor::from_data(data, (device, DType::F32))),
                MasterItem::Beside(data) => {
                    Master::Beside(Tensor::from_data(data, (device, DType::I16)))
                }
            },
            inner: item.inner.map(|inner| Record::from_item(inner, device)),
        }
    }
}

/// The model with its F32 masters in the place of parameters stored in half: a plain F32 model, to save or to go on with.
///
/// Its record is one that Burn reads without burn-amp. Parameters that were never stepped are cast.
pub fn with_master_weights<B, M, O>(
    model: M,
    optimizer: &OptimizerAdaptor<MasterWeights<O>, M, B>,
) -> M
where
    B: AutodiffBackend,
    M: AutodiffModule<B>,
    O: SimpleOptimizer<B::InnerBackend>,
{
    struct Replace<O, B>
    where
        O: SimpleOptimizer<B::InnerBackend>,
        B: AutodiffBackend,
    {
        states: hashbrown::HashMap<ParamId, AdaptorRecord<MasterWeights<O>, B>>,
    }

    impl<O, B> ModuleMapper<B> for Replace<O, B>
    where
        O: SimpleOptimizer<B::InnerBackend>,
        B: AutodiffBackend,
    {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            let state = self.states.remove(&param.id);
            let master = match state.map(AdaptorRecord::into_state::<D>) {
                Some(MasterState { master, .. }) => master,
                None => Master::Parameter,
            };
            match param.val().dtype() {
                DType::F16 | DType::BF16 => store_param(param, FloatDType::F32, |tensor| {
                    Tensor::from_inner(master.weights(tensor.inner()))
                }),
                _ => param,
            }
        }
    }

    model.map(&mut Replace::<O, B> {
        states: Optimizer::<M, B>::to_record(optimizer),
    })
}
