//! The optimizer of a whole module, which steps all parameters together.

use std::{collections::HashMap, path::Path};

use burn::{
    lr_scheduler::module_lr_scheduler::ModuleLearningRate,
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    optim::{GradientsParams, ModuleOptimizer, MultiGradientsParams, OptimizerRecord},
    store::RecordError,
    tensor::Tensor,
};
use burn_amp_core::NormGuard;
use burn_amp_decorator::{
    full_precision,
    internal::Moment,
    optimizer::{
        Clipping, GradientNorm, ListOptimizer,
        erased::{self, AnyParameter, AnyStep, AnyTensor, OnNorm, entering},
    },
};

use super::{
    clip::clip,
    modules::Modules,
    one_step::{Waiting, collected},
    outliers::Outliers,
};
use crate::effective_config;

/// The optimizer that [`AmpOptimizer::init`](super::AmpOptimizer::init) makes. It has the methods of Burn's
/// `ModuleOptimizer`.
///
/// It skips the step of a whole *effective batch*, the micro-batches whose gradients are added for one step, if a part of it
/// overflowed; without it, the step would be made from the other parts. A backward pass over the same parameters
/// whose gradients are asked for and then discarded cannot be distinguished from a micro-batch.
#[derive(Clone)]
pub struct AmpModuleOptimizer {
    list: ListOptimizer,
    /// Which has the states.
    inner: ModuleOptimizer,
    clipping: Option<Clipping>,
    norm: Option<GradientNorm>,
    /// When the last step was made or skipped.
    since: Moment,
    outliers: Outliers,
}

impl AmpModuleOptimizer {
    pub(super) fn new(
        list: ListOptimizer,
        inner: ModuleOptimizer,
        clipping: Option<Clipping>,
        norm: Option<GradientNorm>,
    ) -> Self {
        Self {
            list,
            inner,
            clipping,
            norm,
            since: Moment::now(),
            outliers: Outliers::default(),
        }
    }

    /// Makes a step, or skips it.
    pub fn step<M: Module>(
        &mut self,
        lr: impl Into<ModuleLearningRate>,
        module: M,
        mut gradients: GradientsParams,
    ) -> M {
        if let Some(clipping @ Clipping::Value(_)) = self.clipping {
            clip(&mut gradients, &module, clipping);
        }
        let ids = Known::of(&module, &gradients);
        self.make(ids, module, |inner, module| {
            inner.step(lr, module, gradients)
        })
    }

    /// Makes a step with gradients of several devices, which it adds, or skips it.
    pub fn step_multi<M: Module>(
        &mut self,
        lr: impl Into<ModuleLearningRate>,
        module: M,
        gradients: MultiGradientsParams,
    ) -> M {
        let gradients = added(gradients, &module);
        self.step(lr, module, gradients)
    }

    /// Returns the number of steps that were skipped because their gradients are outliers (`gradients.max_norm_ratio`), since
    /// the optimizer was made.
    pub fn skipped_outliers(&self) -> u64 {
        self.outliers.skipped()
    }

    /// Returns the states of all parameters. Burn's own optimizer reads the record, unless a parameter has a separate master or
    /// moments in fewer bytes.
    pub fn to_record(&self) -> OptimizerRecord {
        self.inner.to_record()
    }

    /// Loads the states of all parameters, also from the record of Burn's own optimizer.
    pub fn load_record(self, record: OptimizerRecord) -> Self {
        Self {
            inner: self.inner.load_record(record),
            ..self
        }
    }

    /// Saves the states of all parameters to a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RecordError> {
        self.inner.save(path)
    }

    /// Loads the states of all parameters from a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is no record of an optimizer.
    pub fn load(self, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Ok(Self {
            inner: self.inner.load(path)?,
            ..self
        })
    }

    /// Walks through a module twice: Burn's optimizer comes by all parameters, and after the step of all they are put back.
    fn make<M: Module>(
        &mut self,
        ids: Vec<Known>,
        module: M,
        walk: impl FnOnce(&mut ModuleOptimizer, M) -> M,
    ) -> M {
        let since = std::mem::replace(&mut self.since, Moment::now());
        let guard = guard(&module);
        let (module, waiting) = collected(|| walk(&mut self.inner, module));
        assert_eq!(waiting.len(), ids.len(), "each gradient has a parameter");
        let is_withheld = waiting.iter().any(|one| one.tensor.withheld_since(since));
        let waiting = ids.into_iter().zip(waiting);
        let stepped = match is_withheld {
            true => waiting
                .map(|(known, waiting)| (known.id, waiting.tensor))
                .collect(),
            false => full_precision(|| self.stepped(waiting, guard)),
        };
        module.map(&mut PutBack { stepped })
    }

    /// Steps the parameters that wait, and fills in their states.
    fn stepped(
        &mut self,
        waiting: impl Iterator<Item = (Known, Waiting)>,
        guard: Option<NormGuard>,
    ) -> HashMap<ParamId, AnyTensor> {
        let mut places = Vec::new();
        let parameters = waiting.map(|(known, waiting)| {
            let state = waiting.state.lock().take();
            places.push((known.id, waiting.state));
            AnyParameter {
                id: known.id.val(),
                keeps_more: known.keeps_more,
                lr: waiting.lr,
                tensor: waiting.tensor,
                gradient: waiting.gradient,
                state,
            }
        });
        let parameters = parameters.collect();
        let (outliers, norm) = (&mut self.outliers, &self.norm);
        let asks = norm.is_some() || guard.is_some();
        let step = AnyStep {
            max_norm: match self.clipping {
                Some(Clipping::GlobalNorm(max)) => Some(max),
                Some(Clipping::Value(_)) | None => None,
            },
            norm: asks.then(|| {
                Box::new(move |read: Box<dyn FnOnce() -> f64 + Send>| {
                    let Some(guard) = guard else {
                        if let Some(norm) = norm {
                            norm.set(read);
                        }
                        return true;
                    };
                    let value = read();
                    let is_outlier = outliers.skips(guard, value as f32);
                    if let (Some(norm), false) = (norm, is_outlier) {
                        norm.set(move || value);
                    }
                    !is_outlier
                }) as OnNorm<'_>
            }),
            parameters,
        };
        let stepped = erased::step_any(&self.list, step).into_iter();
        stepped
            .zip(places)
            .map(|((tensor, state), (id, place))| {
                *place.lock() = state;
                (id, tensor)
            })
            .collect()
    }
}

/// The rule by which steps are outliers, if the configuration of the module's device has one.
fn guard<M: Module>(module: &M) -> Option<NormGuard> {
    let device = module.devices().into_iter().next()?;
    effective_config(&device).ok()?.gradients.guard()
}

/// What is known of a parameter that has a gradient, in the order in which Burn's optimizer comes by.
struct Known {
    id: ParamId,
    /// Whether it is one of a norm or an embedding.
    keeps_more: bool,
}

/// Finds the parameters that have a gradient.
struct Find<'a> {
    gradients: &'a GradientsParams,
    modules: Modules,
    found: Vec<Known>,
}

impl Known {
    fn of<M: Module>(module: &M, gradients: &GradientsParams) -> Vec<Self> {
        let mut find = Find {
            gradients,
            modules: Modules::default(),
            found: Vec::new(),
        };
        module.visit(&mut find);
        find.found
    }
}

impl ModuleVisitor for Find<'_> {
    fn enter_module(&mut self, _: &str, container_type: &str) {
        self.modules.enter(container_type);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.modules.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // A parameter that is in the model twice is stepped at its first place only.
        let is_new = self.found.iter().all(|known| known.id != param.id);
        if is_new && self.gradients.get::<D>(param.id).is_some() {
            self.found.push(Known {
                id: param.id,
                keeps_more: self.modules.keeps_more(),
            });
        }
    }
}

/// Puts the parameters back into the module that they were taken from.
struct PutBack {
    stepped: HashMap<ParamId, AnyTensor>,
}

impl ModuleMapper for PutBack {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(stepped) = self.stepped.remove(&param.id) else {
            return param;
        };
        let (id, placeholder, mapper) = param.consume();
        let requires_grad = placeholder.is_require_grad();
        let is_distributed = placeholder.is_distributed();
        let strategy = placeholder.gradient_checkpointing_strategy();
        let mut tensor = entering(stepped, || Tensor::from_inner(placeholder.inner()));
        if let Some(strategy) = strategy {
            tensor = tensor.with_gradient_checkpointing_strategy(strategy);
        }
        if requires_grad {
            tensor = tensor.require_grad();
        }
        if is_distributed {
            tensor = tensor.set_distributed(id);
        }
        Param::from_mapped_value(id, tensor, mapper)
    }
}

/// Adds the gradients of several devices, each on the device on which Burn would step its parameter.
fn added<M: Module>(gradients: MultiGradientsParams, module: &M) -> GradientsParams {
    let mut add = Add {
        from: gradients,
        to: GradientsParams::new(),
    };
    module.visit(&mut add);
    add.to
}

struct Add {
    from: MultiGradientsParams,
    to: GradientsParams,
}

impl ModuleVisitor for Add {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some((gradient, _)) = self.from.remove::<D>(param.id) {
            self.to.register(param.id, gradient);
        }
    }
}
