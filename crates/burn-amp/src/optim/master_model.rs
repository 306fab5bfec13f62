//! The model with its F32 masters as parameters.

use burn::{
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::{Optimizer, SimpleOptimizer, adaptor::OptimizerAdaptor, record::AdaptorRecord},
    tensor::{
        DType, FloatDType, Tensor,
        backend::{AutodiffBackend, Backend},
    },
};

use super::{MasterState, MasterWeights, SkipOnDevice};
use crate::{backend::Amped, convert::store_param, graph::NoGraph};

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
        match param.val().dtype() {
            DType::F16 | DType::BF16 => store_param(param, FloatDType::F32, |tensor| {
                let state = state.map(AdaptorRecord::into_state::<D>);
                Tensor::from_inner(O::master(state, tensor.inner()))
            }),
            _ => param,
        }
    }
}
