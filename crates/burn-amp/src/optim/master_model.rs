//! The model with its F32 masters as parameters.

use burn::{
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::{Optimizer, SimpleOptimizer, adaptor::OptimizerAdaptor, record::AdaptorRecord},
    tensor::{DType, FloatDType, Tensor, backend::AutodiffBackend},
};
use burn_amp_kernels::optimizer::Master;
use hashbrown::HashMap;

use super::{MasterWeights, master_weights::weights_of};
use crate::convert::store_param;

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

impl<O, M, B> MasterModel<M> for OptimizerAdaptor<MasterWeights<O>, M, B>
where
    B: AutodiffBackend,
    M: AutodiffModule<B>,
    O: SimpleOptimizer<B::InnerBackend>,
{
    fn master_model(&self, model: M) -> M {
        model.map(&mut ReplaceByMasters::<O, B> {
            states: Optimizer::<M, B>::to_record(self),
        })
    }
}

struct ReplaceByMasters<O: SimpleOptimizer<B::InnerBackend>, B: AutodiffBackend> {
    states: HashMap<ParamId, AdaptorRecord<MasterWeights<O>, B>>,
}

impl<O, B> ModuleMapper<B> for ReplaceByMasters<O, B>
where
    O: SimpleOptimizer<B::InnerBackend>,
    B: AutodiffBackend,
{
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let state = self.states.remove(&param.id);
        replace_low(param, |tensor| {
            let master = match state {
                Some(state) => state.into_state::<D>().master,
                None => Master::Parameter,
            };
            weights_of(master, tensor)
        })
    }
}

/// Replaces the values of a parameter in half precision.
pub(super) fn replace_low<B: AutodiffBackend, const D: usize>(
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
