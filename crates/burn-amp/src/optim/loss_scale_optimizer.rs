//! An optimizer wrapper that skips, clips and records for loss scaling.

use burn::{
    module::{AutodiffModule, Module},
    optim::{GradientsParams, LearningRate, MultiGradientsParams, Optimizer},
    tensor::{ElementConversion, backend::AutodiffBackend},
};
use burn_amp_core::NormGuard;

use super::{
    Clipping, GradientNorm, LossScaleOptimizerRecord, MasterModel, clip::clip,
    effective_batch::EffectiveBatch, gradients::join_graphs, list, merge::merged,
    outliers::Outliers, rate::Rate,
};
use crate::names::Names;
use burn_amp_decorator::{Amped, Context, Trains, full_precision};

/// Wraps any of Burn's [`Optimizer`]s for loss scaling. [`AmpOptimizer::init`](super::AmpOptimizer::init) returns one.
///
/// * It skips the step of a whole *effective batch*, the micro-batches or devices whose gradients are summed for one
///   step, if a part of it overflowed. Without the wrapper, the step would be made from the other parts.
/// * It clips the gradients of all parameters together, after unscaling.
/// * It skips a step whose gradients are an outlier, if `gradients.max_norm_ratio` says which are.
/// * It steps in F32. Ops on gradients are never lowered anyway, but a checkpoint does not know which parts of the
///   optimizer's state were computed from gradients.
/// * Its record contains the loss scale, so that a checkpoint of a `Learner` resumes exactly.
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::optim::{Clipping, LossScaleOptimizer};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
///
/// let mut optimizer = LossScaleOptimizer::new(AdamConfig::new().init()).with_clipping(Clipping::GlobalNorm(1.0));
/// # let _ = |grads| optimizer.step(1e-3, model, grads);
/// ```
///
/// If `loss_scale.sync = false`, it waits for the device in each step; only an `AmpOptimizer` of Adam, AdamW or SGD skips
/// without the host.
///
/// A backward pass over the same parameters whose gradients are asked for and then discarded cannot be distinguished
/// from a micro-batch: if it overflows, the next step is skipped.
#[doc(alias = "GradScaler")]
#[derive(Clone, Debug)]
pub struct LossScaleOptimizer<O> {
    inner: O,
    pub(super) clipping: Option<Clipping>,
    pub(super) norm: Option<GradientNorm>,
    /// Whether `inner` accepts gradients whose outcome is still on the device.
    pub(super) selects_on_device: bool,
    batch: EffectiveBatch,
    outliers: Outliers,
    names: Names,
    rate: Rate,
}

impl<O> LossScaleOptimizer<O> {
    /// Wraps an optimizer.
    pub fn new(inner: O) -> Self {
        Self {
            inner,
            clipping: None,
            norm: None,
            selects_on_device: false,
            batch: EffectiveBatch::begin(),
            outliers: Outliers::default(),
            names: Names::default(),
            rate: Rate::default(),
        }
    }

    /// Clips the unscaled gradients of every step, all parameters together.
    #[doc(alias("clip_grad_norm_", "clip_grad_value_", "unscale_"))]
    pub fn with_clipping(self, clipping: Clipping) -> Self {
        Self {
            clipping: Some(clipping),
            ..self
        }
    }

    /// Measures the global norm of every step's gradients, before clipping, into `norm`.
    pub fn with_gradient_norm(self, norm: &GradientNorm) -> Self {
        Self {
            norm: Some(norm.clone()),
            ..self
        }
    }

    /// Returns the number of steps that were skipped because their gradients are outliers (`gradients.max_norm_ratio`),
    /// since the optimizer was made.
    pub fn skipped_outliers(&self) -> u64 {
        self.outliers.skipped()
    }

    /// Returns the wrapped optimizer.
    pub fn inner(&self) -> &O {
        &self.inner
    }

    /// Loads a record of the wrapped optimizer alone, without loss scales: for an Adam, AdamW or SGD of
    /// [`AmpOptimizer`](super::AmpOptimizer), such as Burn's own optimizer saves.
    ///
    /// The other way, `optimizer.inner().to_record()` is a record that Burn's own optimizer reads, as long as no parameter
    /// has a separate master.
    pub fn load_inner_record<M, B>(self, record: O::Record) -> Self
    where
        O: Optimizer<M, B>,
        M: AutodiffModule<B>,
        B: AutodiffBackend,
    {
        Self {
            inner: self.inner.load_record(record),
            ..self
        }
    }

    /// Names the parameters, if reports of overflowed gradients or `[parameters]` may need their names.
    fn name<B: Amped, M: Module<B>>(&mut self, module: &M) {
        let contexts = Context::<B::Plain>::on_all_devices::<B::Source>();
        if contexts.iter().any(|(_, context)| context.needs_names()) {
            self.names.tell(module);
        }
    }

    /// Names the parameters before the first step: it may make new ones, and reports of the old ones want names too.
    fn name_first<B: Amped, M: Module<B>>(&mut self, module: &M) {
        if self.names.is_empty() {
            self.name(module);
        }
    }

    /// Returns whether to step, after clipping and measuring the gradients of the step.
    fn prepare<B, M>(&mut self, grads: &mut GradientsParams, module: &M) -> bool
    where
        B: Amped + Trains,
        M: AutodiffModule<B>,
    {
        if !self
            .batch
            .end::<B, M>(grads, module, self.selects_on_device)
        {
            return false;
        }
        let guard = guard::<B>();
        let before = match self.clipping {
            Some(Clipping::GlobalNorm(max)) => list::clip::clip::<B, M>(grads, module, max),
            Some(Clipping::Value(_)) | None if self.norm.is_some() || guard.is_some() => {
                list::clip::norm::<B, M>(grads, module)
            }
            Some(Clipping::Value(_)) | None => None,
        };
        if let (Some(guard), Some(norm)) = (guard, &before)
            && self
                .outliers
                .skips(guard, norm.clone().into_scalar().elem())
        {
            return false;
        }
        if let Some(clipping @ Clipping::Value(_)) = self.clipping {
            clip::<B, M>(grads, module, clipping);
        }
        if let (Some(norm), Some(value)) = (&self.norm, before) {
            norm.set(move || value.into_scalar().elem());
        }
        true
    }
}

/// Returns the rule by which steps are outliers, if the configuration of backend `B` has one.
fn guard<B: Amped>() -> Option<NormGuard> {
    let contexts = Context::<B::Plain>::on_all_devices::<B::Source>();
    let mut guards = contexts
        .iter()
        .map(|(_, context)| context.config.gradients.guard());
    guards.find_map(|guard| guard)
}

impl<O: Optimizer<M, B>, M: AutodiffModule<B>, B: Amped + Trains> Optimizer<M, B>
    for LossScaleOptimizer<O>
{
    type Record = LossScaleOptimizerRecord<O::Record>;

    fn step(&mut self, lr: LearningRate, module: M, mut grads: GradientsParams) -> M {
        self.name_first(&module);
        let is_made = self.prepare::<B, M>(&mut grads, &module);
        let module = match is_made {
            true => full_precision(|| self.inner.step(lr, module, grads)),
            false => module,
        };
        self.rate.stepped(lr, is_made);
        self.name(&module);
        join_graphs::<B, M>(&module);
        module
    }

    fn step_multi(&mut self, lr: LearningRate, module: M, grads: MultiGradientsParams) -> M {
        let grads = merged::<B, M>(grads, &module);
        self.step(lr, module, grads)
    }

    fn to_record(&self) -> Self::Record {
        LossScaleOptimizerRecord {
            loss_scales: Context::<B::Plain>::loss_scales::<B::Source>(),
            optimizer: self.inner.to_record(),
        }
    }

    /// Also sets the loss scales of the devices to those of the record.
    fn load_record(self, record: Self::Record) -> Self {
        Context::<B::Plain>::load_loss_scales::<B::Source>(record.loss_scales);
        Self {
            inner: self.inner.load_record(record.optimizer),
            ..self
        }
    }
}

impl<O: MasterModel<M>, M> MasterModel<M> for LossScaleOptimizer<O> {
    fn master_model(&self, model: M) -> M {
        self.inner.master_model(model)
    }
}
