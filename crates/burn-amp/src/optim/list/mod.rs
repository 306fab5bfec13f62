//! The optimizer that steps all parameters together, over modules of Burn. Its step is that of
//! [`burn_amp_decorator::optimizer`].
//!
//! * [`clip`]: the global norm of all gradients, and clipping by it
//! * [`states`]: Burn's form of a state
//! * [`walk`]: taking the parameters and gradients out of a model, and putting the parameters back
//! * [`record`]: the states in a file

pub(super) mod clip;
mod record;
pub(super) mod states;
mod walk;

pub use record::StateRecord;

use burn::{
    grad_clipping::GradientClipping,
    module::{AutodiffModule, ModuleMapper, Param, ParamId},
    optim::{
        GradientsParams, LearningRate, MultiGradientsParams, Optimizer, adaptor::OptimizerAdaptor,
    },
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_core::Precision;
use burn_amp_kernels::{
    AmpBackend,
    optimizer::{Master, weights},
};
use hashbrown::HashMap;

use self::{
    record::StateRecord as Record,
    walk::{SteppedParameters, TakenAll, put, take},
};
use super::{
    AmpOptimizer, MasterModel, MasterWeights, OptimizerConfig, master_model::replace_low,
    merge::merged,
};
use burn_amp_decorator::{
    AmpTensor, Amped, Trains,
    internal::Reader,
    optimizer::{ListOptimizer, ListState},
    precision,
};

/// The plain backend below a backend for training.
pub(super) type PlainOf<B> = <<B as AutodiffBackend>::InnerBackend as Amped>::Plain;

/// The optimizer inside an [`AmpOptimizer`]: that of the configuration `C`, for the module `M`.
///
/// Adam, AdamW and SGD step all parameters together, by [`optimizer::step`](burn_amp_kernels::optimizer::step):
/// where the backend has a kernel, a launch takes many parameters. Other optimizers step one parameter after the other,
/// as Burn's `OptimizerAdaptor` does; [`is_fused`](Self::is_fused) says which it is.
// Rustdoc 1.95 panics where it looks for the auto traits of this type.
#[doc(hidden)]
pub struct AmpAdaptor<C, M, B>(Way<C, M, B>)
where
    B: Trains,
    C: OptimizerConfig<B::InnerBackend>,
    M: AutodiffModule<B>;

/// How parameters are stepped.
#[doc(hidden)] // As above.
enum Way<C: OptimizerConfig<B::InnerBackend>, M: AutodiffModule<B>, B: Trains> {
    /// Adam, AdamW and SGD. Saves a dozen launches per parameter.
    Together(List<PlainOf<B>>),
    /// Any other optimizer. Saves whoever trains with one from giving up masters and exact skips.
    OneByOne(OptimizerAdaptor<MasterWeights<C::Optimizer>, M, B>),
}

/// The optimizer with the states of the parameters.
#[doc(hidden)] // As above.
#[derive(Clone)]
struct List<P: AmpBackend> {
    optimizer: ListOptimizer,
    /// The clipping of each parameter's gradient that the configuration asks for.
    clipping: Option<GradientClipping>,
    states: HashMap<ParamId, ListState<P>>,
}

impl<P: AmpBackend> List<P> {
    fn step(&mut self, lr: LearningRate, taken: TakenAll<P>) -> SteppedParameters<P> {
        let TakenAll {
            mut parameters,
            facts,
            passes,
        } = taken;
        for (parameter, (id, _)) in parameters.iter_mut().zip(&facts) {
            parameter.state = self.states.remove(id);
        }
        let stepped = self.optimizer.step(lr, parameters, &passes);
        let stepped = stepped.into_iter().zip(facts);
        stepped
            .map(|(stepped, (id, facts))| {
                if let Some(state) = stepped.state {
                    self.states.insert(id, state);
                }
                (id, (stepped.tensor, facts))
            })
            .collect()
    }
}

impl<C: OptimizerConfig<B::InnerBackend>, M: AutodiffModule<B>, B: Trains> AmpAdaptor<C, M, B> {
    pub(super) fn new(optimizer: &AmpOptimizer<C>) -> Self {
        Self(match optimizer.config.rule() {
            Some(rule) => Way::Together(List {
                optimizer: ListOptimizer {
                    rule,
                    masters: optimizer.masters,
                    moments: optimizer.moments,
                    seed: optimizer.seed,
                },
                clipping: optimizer.config.clipping(),
                states: HashMap::new(),
            }),
            None => Way::OneByOne(optimizer.adaptor()),
        })
    }

    /// Whether all parameters step together.
    pub fn is_fused(&self) -> bool {
        matches!(self.0, Way::Together(_))
    }
}

impl<C: OptimizerConfig<B::InnerBackend>, M: AutodiffModule<B>, B: Trains> Clone
    for AmpAdaptor<C, M, B>
{
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Way::Together(list) => Way::Together(list.clone()),
            Way::OneByOne(adaptor) => Way::OneByOne(adaptor.clone()),
        })
    }
}

impl<C: OptimizerConfig<B::InnerBackend>, M: AutodiffModule<B>, B: Trains> Optimizer<M, B>
    for AmpAdaptor<C, M, B>
{
    type Record = HashMap<ParamId, StateRecord<C, B>>;

    fn step(&mut self, lr: LearningRate, module: M, mut grads: GradientsParams) -> M {
        match &mut self.0 {
            Way::Together(list) => {
                let (module, taken) = take::<M, B>(module, &mut grads, list.clipping.as_ref());
                put::<M, B>(module, list.step(lr, taken))
            }
            Way::OneByOne(adaptor) => adaptor.step(lr, module, grads),
        }
    }

    fn step_multi(&mut self, lr: LearningRate, module: M, grads: MultiGradientsParams) -> M {
        let grads = merged::<B, M>(grads, &module);
        self.step(lr, module, grads)
    }

    /// With `loss_scale.sync = false`, waits for the outcome of the last step.
    fn to_record(&self) -> Self::Record {
        match &self.0 {
            Way::Together(list) => {
                let states = list.states.iter();
                let states = states.filter_map(|(id, state)| {
                    let state = state.clone().decided()?;
                    Some((*id, Record::List(state)))
                });
                states.collect()
            }
            Way::OneByOne(adaptor) => {
                let states = Optimizer::<M, B>::to_record(adaptor).into_iter();
                let states = states.map(|(id, state)| (id, Record::OneByOne(state)));
                states.collect()
            }
        }
    }

    fn load_record(self, record: Self::Record) -> Self {
        let record = record.into_iter();
        Self(match self.0 {
            Way::Together(list) => {
                let states = record.filter_map(|(id, state)| Some((id, state.into_list()?)));
                Way::Together(List {
                    states: states.collect(),
                    ..list
                })
            }
            Way::OneByOne(adaptor) => {
                let states = record.filter_map(|(id, state)| Some((id, state.one_by_one()?)));
                Way::OneByOne(adaptor.load_record(states.collect()))
            }
        })
    }
}

impl<C: OptimizerConfig<B::InnerBackend>, M: AutodiffModule<B>, B: Trains> MasterModel<M>
    for AmpAdaptor<C, M, B>
{
    fn master_model(&self, model: M) -> M {
        match &self.0 {
            Way::Together(list) => model.map(&mut ReplaceByListedMasters::<B>(&list.states)),
            Way::OneByOne(adaptor) => adaptor.master_model(model),
        }
    }
}

/// Replaces the parameters in half precision by the masters of these states.
struct ReplaceByListedMasters<'a, B>(&'a HashMap<ParamId, ListState<PlainOf<B>>>)
where
    B: Trains;

impl<B: Trains> ModuleMapper<B> for ReplaceByListedMasters<'_, B> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let state = self.0.get(&param.id).cloned();
        let state = state.and_then(ListState::decided);
        let master = state.map_or(Master::Parameter, |state| state.master);
        replace_low(param, |tensor| {
            let tensor = tensor.into_primitive().tensor();
            let (context, dtype) = (tensor.context, tensor.exact_dtype());
            let master = weights::<PlainOf<B>>(master, tensor.read(dtype, Reader::Cut));
            let master = precision::cast::<PlainOf<B>>(master, Precision::F32);
            let master = AmpTensor::new(master, context);
            Tensor::from_primitive(TensorPrimitive::Float(master))
        })
    }
}
