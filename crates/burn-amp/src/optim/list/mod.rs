//! The optimizer that steps all parameters together.
//!
//! * [`clip`]: the global norm of all gradients, and clipping by it
//! * [`rules`]: the rules of Burn's configurations, and Burn's form of a state
//! * [`state`]: what is kept for a parameter
//! * [`walk`]: taking the parameters and gradients out of a model, and putting the parameters back
//! * [`step`]: the step of the parameters that were taken
//! * [`record`]: the states in a file; [`item`]: where Burn has no form for them

pub(super) mod clip;
mod item;
mod record;
pub(super) mod rules;
mod state;
mod step;
mod walk;

pub use record::StateRecord;

use burn::{
    grad_clipping::GradientClipping,
    module::{AutodiffModule, ParamId},
    optim::{
        GradientsParams, LearningRate, MultiGradientsParams, Optimizer,
        adaptor::{GradAdaptor, OptimizerAdaptor},
    },
    tensor::backend::AutodiffBackend,
};
use burn_amp_kernels::optimizer::Rule;
use hashbrown::HashMap;

use self::{
    record::StateRecord as Record,
    state::ListState,
    step::ListOptimizer,
    walk::{put, take},
};
use super::{
    MasterModel, MasterWeights, Masters, Moments, OptimizerConfig, SkipOnDevice,
    config::replace_optimizer, master_model::replace_by_masters,
};
use crate::{backend::Amped, graph::NoGraph};

/// The plain backend below a backend for training.
pub(super) type PlainOf<B> = <<B as AutodiffBackend>::InnerBackend as Amped>::Plain;

/// Burn's optimizer, parameter by parameter.
type OneByOne<O, M, B> = OptimizerAdaptor<MasterWeights<SkipOnDevice<O>>, M, B>;

/// The optimizer inside an [`AmpOptimizer`](super::AmpOptimizer): that of the configuration `C`, for the module `M`.
///
/// Adam, AdamW and SGD step all parameters together, by [`optimizer::step`](burn_amp_kernels::optimizer::step):
/// where the backend has a kernel, a launch takes many parameters. Other optimizers step one parameter after the other,
/// as Burn's `OptimizerAdaptor` does; [`is_fused`](Self::is_fused) says which it is.
// Rustdoc 1.95 panics where it looks for the auto traits of this type.
#[doc(hidden)]
pub struct AmpAdaptor<C, M, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>,
{
    list: Option<ListOptimizer>,
    clipping: Option<GradientClipping>,
    states: HashMap<ParamId, ListState<PlainOf<B>>>,
    one_by_one: OneByOne<C::Optimizer, M, B>,
}

impl<C, M, B> AmpAdaptor<C, M, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>,
{
    pub(super) fn new(
        config: &C,
        masters: Masters,
        moments: Moments,
        seed: u64,
        is_fused: bool,
    ) -> Self {
        let adaptor = config.adaptor::<B, M>();
        let rule: Option<Rule> = config.rule().filter(|_| is_fused);
        Self {
            list: rule.map(|rule| ListOptimizer {
                rule,
                masters,
                moments,
                seed,
            }),
            clipping: adaptor.grad_clipping().cloned(),
            states: HashMap::new(),
            // With the selection inside the master weights, only one copy of the masters is kept, not the old and the
            // new one.
            one_by_one: replace_optimizer(adaptor, |optimizer| {
                MasterWeights::new(SkipOnDevice::new(optimizer)).with_masters(masters)
            }),
        }
    }

    /// Whether all parameters step together.
    pub fn is_fused(&self) -> bool {
        self.list.is_some()
    }

    fn step_list(
        &mut self,
        list: ListOptimizer,
        lr: LearningRate,
        module: M,
        mut grads: GradAdaptor,
    ) -> M {
        let (module, taken) = take::<M, B>(module, &mut grads, self.clipping.as_ref());
        let stepped = list.step(lr, taken, &mut self.states);
        put::<M, B>(module, stepped)
    }
}

impl<C, M, B> Clone for AmpAdaptor<C, M, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>,
{
    fn clone(&self) -> Self {
        Self {
            list: self.list,
            clipping: self.clipping.clone(),
            states: self.states.clone(),
            one_by_one: self.one_by_one.clone(),
        }
    }
}

impl<C, M, B> Optimizer<M, B> for AmpAdaptor<C, M, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>,
{
    type Record = HashMap<ParamId, StateRecord<C, B>>;

    fn step(&mut self, lr: LearningRate, module: M, grads: GradientsParams) -> M {
        match self.list {
            Some(list) => self.step_list(list, lr, module, grads.into()),
            None => self.one_by_one.step(lr, module, grads),
        }
    }

    fn step_multi(&mut self, lr: LearningRate, module: M, grads: MultiGradientsParams) -> M {
        match self.list {
            Some(list) => self.step_list(list, lr, module, grads.into()),
            None => self.one_by_one.step_multi(lr, module, grads),
        }
    }

    /// With `loss_scale.sync = false`, waits for the outcome of the last step.
    fn to_record(&self) -> Self::Record {
        let states = self.states.iter();
        let states = states.filter_map(|(id, state)| {
            let state = state.clone().decided()?;
            Some((*id, Record::List(state)))
        });
        let others = Optimizer::<M, B>::to_record(&self.one_by_one).into_iter();
        let others = others.map(|(id, state)| (id, Record::OneByOne(state)));
        states.chain(others).collect()
    }

    fn load_record(mut self, record: Self::Record) -> Self {
        let mut others = HashMap::new();
        self.states = HashMap::new();
        for (id, record) in record {
            match (record, self.list) {
                (record, Some(_)) => {
                    self.states
                        .extend(record.into_list().map(|state| (id, state)));
                }
                (record, None) => {
                    others.extend(record.into_one_by_one().map(|state| (id, state)));
                }
            }
        }
        self.one_by_one = self.one_by_one.load_record(others);
        self
    }
}

impl<C, M, B> MasterModel<M> for AmpAdaptor<C, M, B>
where
    B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>,
{
    fn master_model(&self, model: M) -> M {
        if self.list.is_none() {
            return self.one_by_one.master_model(model);
        }
        replace_by_masters::<M, B>(model, |id, parameter| {
            match self.states.get(&id).cloned().and_then(ListState::decided) {
                Some(state) => state.master.weights_of(parameter),
                None => parameter,
            }
        })
    }
}
