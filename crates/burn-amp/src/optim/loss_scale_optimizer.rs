//! An optimizer that knows of the loss scale.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::{GradientsParams, LearningRate, MultiGradientsParams, Optimizer},
    record::{PrecisionSettings, Record},
    tensor::{
        ElementConversion, Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend, DeviceId, DeviceOps},
    },
};
use serde::{Deserialize, Serialize};

use super::{Clipping, clip::clip_all, clip::global_norm_of};
use crate::{
    backend::AmpBackend,
    loss_scale::{DeviceLossScale, LossScaleRecord},
    policy::Context,
};

/// Wraps an optimizer for what needs to know of the loss scale. Optional: without it training works too.
///
/// * It skips a whole effective batch if one of its parts overflowed: micro-batches that are accumulated, or the batches of
///   several devices. Without it the step is made from the other parts.
/// * It clips the gradients of all parameters together, after unscaling.
/// * Its record holds the loss scale, so that a checkpoint of a `Learner` resumes exactly.
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
#[derive(Clone, Debug)]
pub struct LossScaleOptimizer<O> {
    inner: O,
    clipping: Option<Clipping>,
    norm: Option<GradientNorm>,
}

impl<O> LossScaleOptimizer<O> {
    /// Wraps an optimizer.
    pub fn new(inner: O) -> Self {
        Self {
            inner,
            clipping: None,
            norm: None,
        }
    }

    /// Clips the gradients of every step.
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

    /// The wrapped optimizer.
    pub fn inner(&self) -> &O {
        &self.inner
    }

    /// Clips and measures the gradients of one step.
    fn prepare<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
        grads: &mut [GradientsParams],
        module: &M,
    ) {
        let before = match (&self.norm, self.clipping) {
            (Some(_), Some(Clipping::Value(_)) | None) => global_norm_of::<B, M>(grads, module),
            (Some(_), Some(Clipping::GlobalNorm(_))) | (None, _) => None,
        };
        let clipped = self
            .clipping
            .and_then(|clipping| clip_all::<B, M>(grads, module, clipping));
        if let (Some(norm), Some(value)) = (&self.norm, before.or(clipped)) {
            norm.set(value);
        }
    }
}

impl<O, M, B> Optimizer<M, B> for LossScaleOptimizer<O>
where
    O: Optimizer<M, B>,
    M: AutodiffModule<B>,
    B: AutodiffBackend + AmpBackend,
{
    type Record = LossScaleOptimizerRecord<O::Record>;

    fn step(&mut self, lr: LearningRate, module: M, grads: GradientsParams) -> M {
        if take_overflowed::<B, M>(&module) {
            return module;
        }
        let mut grads = [grads];
        self.prepare::<B, M>(&mut grads, &module);
        let [grads] = grads;
        self.inner.step(lr, module, grads)
    }

    fn step_multi(&mut self, lr: LearningRate, module: M, mut grads: MultiGradientsParams) -> M {
        if take_overflowed::<B, M>(&module) {
            return module;
        }
        if self.clipping.is_some() || self.norm.is_some() {
            let (mut merged, devices): (Vec<_>, Vec<_>) =
                merge::<B, M>(grads, &module).into_iter().unzip();
            self.prepare::<B, M>(&mut merged, &module);
            grads = MultiGradientsParams {
                grads: merged.into_iter().zip(devices).collect(),
            };
        }
        self.inner.step_multi(lr, module, grads)
    }

    fn to_record(&self) -> Self::Record {
        LossScaleOptimizerRecord {
            loss_scales: Context::<B::Plain>::loss_scales::<B::Source>(),
            optimizer: self.inner.to_record(),
        }
    }

    /// Also sets the loss scales of the devices to what the record says.
    fn load_record(self, record: Self::Record) -> Self {
        Context::<B::Plain>::load_loss_scales::<B::Source>(record.loss_scales);
        Self {
            inner: self.inner.load_record(record.optimizer),
            ..self
        }
    }
}

/// Whether a backward pass that reached this module overflowed since this was last asked.
fn take_overflowed<B, M>(module: &M) -> bool
where
    B: AutodiffBackend + AmpBackend,
    M: AutodiffModule<B>,
{
    struct Overflowed(bool);

    impl<B: AmpBackend> ModuleVisitor<B> for Overflowed {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if let TensorPrimitive::Float(tensor) = param.val().into_primitive()
                && let Some(origin) = tensor.nature.origin()
            {
                self.0 |= origin.take_overflowed();
            }
        }
    }

    let mut overflowed = Overflowed(false);
    module.visit(&mut overflowed);
    overflowed.0
}

/// The sums of the devices' gradients, each on the device that Burn would step its parameter on.
fn merge<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: MultiGradientsParams,
    module: &M,
) -> Vec<(GradientsParams, DeviceId)> {
    struct Merge<B> {
        from: MultiGradientsParams,
        to: Vec<(GradientsParams, DeviceId)>,
        _backend: PhantomData<B>,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for Merge<B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            let Some((grad, device)) = self.from.remove::<B::InnerBackend, D>(param.id) else {
                return;
            };
            let device = device.id();
            let at = match self.to.iter().position(|(_, id)| *id == device) {
                Some(at) => at,
                None => {
                    self.to.push((GradientsParams::new(), device));
                    self.to.len() - 1
                }
            };
            self.to[at].0.register(param.id, grad);
        }
    }

    let mut visitor = Merge::<B> {
        from: grads,
        to: Vec::new(),
        _backend: PhantomData,
    };
    module.visit(&mut visitor);
    visitor.to
}

/// The record of [`LossScaleOptimizer`]: the loss scales of all devices, and the wrapped optimizer's record.
#[derive(Clone, Debug)]
pub struct LossScaleOptimizerRecord<R> {
    pub(crate) loss_scales: Vec<DeviceLossScale>,
    optimizer: R,
}

impl<R> LossScaleOptimizerRecord<R> {
    /// The loss scale of `device`; `None` if none was saved for it.
    pub fn loss_scale(&self, device: &impl DeviceOps) -> Option<LossScaleRecord> {
        let id = device.id();
        let of_device = self.loss_scales.iter().find(|state| state.is_of(id))?;
        Some(of_device.loss_scale)
    }
}

/// [`LossScaleOptimizerRecord`] in a file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScaleOptimizerItem<I> {
    loss_scales: Vec<DeviceLossScale>,
    optimizer: I,
}

impl<B: Backend, R: Record<B>> Record<B> for LossScaleOptimizerRecord<R> {
    type Item<S: PrecisionSettings> = LossScaleOptimizerItem<R::Item<S>>;

    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        LossScaleOptimizerItem {
            loss_scales: self.loss_scales,
            optimizer: self.optimizer.into_item(),
        }
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            loss_scales: item.loss_scales,
            optimizer: Record::from_item(item.optimizer, device),
        }
    }
}

/// The global norm of the gradients of the last step, measured by a [`LossScaleOptimizer`]; all clones show the same.
#[derive(Clone, Default)]
pub struct GradientNorm(Arc<Mutex<Norm>>);

#[derive(Default)]
enum Norm {
    #[default]
    Unknown,
    /// On the device still: reading it waits for the step.
    OnDevice(Box<dyn FnOnce() -> f64 + Send>),
    Read(f64),
}

impl GradientNorm {
    /// The norm; `None` before the first step. The first call after a step incurs one device-to-host read.
    pub fn value(&self) -> Option<f64> {
        let mut norm = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = match std::mem::take(&mut *norm) {
            Norm::Unknown => return None,
            Norm::OnDevice(read) => read(),
            Norm::Read(value) => value,
        };
        *norm = Norm::Read(value);
        Some(value)
    }

    fn set<B: Backend>(&self, value: Tensor<B, 1>) {
        let read = Box::new(move || value.into_scalar().elem());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Norm::OnDevice(read);
    }
}

impl fmt::Debug for GradientNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GradientNorm")
    }
}
