//! The model with its F32 masters as parameters.

use std::marker::PhantomData;

use burn::{
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::{Optimizer, SimpleOptimizer, adaptor::OptimizerAdaptor, record::AdaptorRecord},
    tensor::{
        DType, FloatDType, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_core::Precision;
use burn_backend::tensor::FloatTensor;

use super::{MasterState, MasterWeights, SkipOnDevice, list::PlainOf};
use crate::{
    backend::Amped,
    convert::store_param,
    graph::NoGraph,
    precision,
    tensor::{AmpTensor, Reader},
};

/// An optimizer that can return the model with its F32 masters: one made by [`AmpOptimizer`](super::AmpOptimizer), or
/// by [`MasterWeights::init`].
pub trait MasterModel<M> {
    /// Replaces the parameters of `model` that are stored in half precision by their F32 masters, and returns a plain
    /// F32 model, to save or to continue training.
    ///
    /// Burn can read the record of this model without burn-amp. Parameters that were never stepped are cast to F32.
    ///
    /// ```
    /// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
    /// use burn_amp::optim::{AmpOptimizer, MasterModel};
    /// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
    /// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
    ///
    /// let mut optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    /// // … training …
    /// # let model = optimizer.step(1e-3, model, burn::optim::GradientsParams::new());
    /// let model = optimizer.master_model(model);
    /// ```
    fn master_model(&self, model: M) -> M;
}

impl<O, M, B> MasterModel<M> for OptimizerAdaptor<O, M, B>
where
    B: AutodiffBackend,
    M: AutodiffModule<B>,
    O: KeepsMasters<B::InnerBackend>,
{
    fn master_model(&self, model: M) -> M {
        model.map(&mut ReplaceByMasters::<O, B> {
            states: Optimizer::<M, B>::to_record(self),
        })
    }
}

/// A [`SimpleOptimizer`] whose state holds a parameter's master.
pub trait KeepsMasters<B: Backend>: SimpleOptimizer<B> {
    /// Returns the F32 master of `parameter`, from the state after its last step.
    fn master<const D: usize>(
        state: Option<Self::State<D>>,
        parameter: Tensor<B, D>,
    ) -> Tensor<B, D>;
}

impl<B: Backend, O: SimpleOptimizer<B>> KeepsMasters<B> for MasterWeights<O> {
    fn master<const D: usize>(
        state: Option<Self::State<D>>,
        parameter: Tensor<B, D>,
    ) -> Tensor<B, D> {
        match state {
            Some(MasterState { master, .. }) => master.weights(parameter),
            None => parameter.cast(FloatDType::F32),
        }
    }
}

impl<B: Amped<Graph = NoGraph>, O: KeepsMasters<B>> KeepsMasters<B> for SkipOnDevice<O> {
    fn master<const D: usize>(
        state: Option<Self::State<D>>,
        parameter: Tensor<B, D>,
    ) -> Tensor<B, D> {
        O::master(state.and_then(|state| state.decided()), parameter)
    }
}

struct ReplaceByMasters<O: SimpleOptimizer<B::InnerBackend>, B: AutodiffBackend> {
    states: hashbrown::HashMap<ParamId, AdaptorRecord<O, B>>,
}

impl<O, B> ModuleMapper<B> for ReplaceByMasters<O, B>
where
    O: KeepsMasters<B::InnerBackend>,
    B: AutodiffBackend,
{
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let state = self.states.remove(&param.id);
        replace_low(param, |tensor| {
            O::master(state.map(AdaptorRecord::into_state::<D>), tensor)
        })
    }
}

/// Replaces the parameters in half precision by F32 masters, which `master` returns for the id and the values of a
/// parameter.
pub(super) fn replace_by_masters<M, B>(
    model: M,
    master: impl Fn(ParamId, FloatTensor<PlainOf<B>>) -> FloatTensor<PlainOf<B>>,
) -> M
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    M: AutodiffModule<B>,
{
    model.map(&mut ReplaceBy {
        master,
        backend: PhantomData::<B>,
    })
}

struct ReplaceBy<F, B> {
    master: F,
    backend: PhantomData<B>,
}

impl<F, B> ModuleMapper<B> for ReplaceBy<F, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    F: Fn(ParamId, FloatTensor<PlainOf<B>>) -> FloatTensor<PlainOf<B>>,
{
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let id = param.id;
        replace_low(param, |tensor| {
            let tensor = tensor.into_primitive().tensor();
            let context = tensor.context;
            let dtype = tensor.exact_dtype();
            let master = (self.master)(id, tensor.read(dtype, Reader::Cut));
            let master = AmpTensor::new(
                precision::cast::<PlainOf<B>>(master, Precision::F32),
                context,
            );
            Tensor::from_primitive(TensorPrimitive::Float(master))
        })
    }
}

/// Replaces the values of a parameter in half precision.
fn replace_low<B: AutodiffBackend, const D: usize>(
    param: Param<Tensor<B, D>>,
    master: impl FnOnce(Tensor<B::InnerBackend, D>) -> Tensor<B::InnerBackend, D>,
) -> Param<Tensor<B, D>> {
    match param.val().dtype() {
        DType::F16 | DType::BF16 => store_param(param, FloatDType::F32, |tensor| {
            Tensor::from_inner(master(tensor.inner()))
        }),
        _ => param,
    }
}
