//! The optimizer that follows the policy in force.

use burn::{grad_clipping::GradientClipping, module::AutodiffModule, tensor::backend::Backend};

use super::{
    AmpAdaptor, Clipping, GradientNorm, LossScaleOptimizer, MasterWeights, Masters, Moments,
    OptimizerConfig,
};
use burn_amp_decorator::Trains;

/// Makes one of Burn's optimizers follow the policy in force, whatever `amp.toml` says.
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::optim::{AmpOptimizer, Clipping};
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
///
/// let mut optimizer = AmpOptimizer::new(AdamConfig::new()) // was: AdamConfig::new().init()
///     .with_clipping(Clipping::GlobalNorm(1.0))
///     .init();
/// # let _ = |grads| optimizer.step(1e-3, model, grads);
/// ```
///
/// | in the presence of | it | with the part |
/// |---|---|---|
/// | Adam, AdamW, SGD | steps all parameters together: one launch takes many of them where the backend has a kernel | [`AmpAdaptor`] |
/// | any other optimizer | steps one parameter after the other | [`AmpAdaptor`] |
/// | a parameter stored in half precision (`o2`, `o3`, a half-precision checkpoint) | steps its F32 master | [`AmpAdaptor`], or [`MasterWeights`](super::MasterWeights) |
/// | `loss_scale.sync = false` | Adam, AdamW and SGD skip steps on the device, without waiting for it; other optimizers wait | [`AmpAdaptor`], or [`LossScaleOptimizer`] |
/// | accumulated gradients, several devices | skips the whole step if one of its micro-batches or devices overflowed | [`LossScaleOptimizer`] |
/// | a checkpoint | saves the loss scale in the optimizer's record | [`LossScaleOptimizer`] |
///
/// Where the policy needs none of this, it makes the same steps as Burn's optimizer, op for op, and keeps the same
/// state. A kernel may round each sum of a product once instead of twice.
///
/// A record that was saved under one policy can be loaded under another: masters start from the parameters, and the
/// loss scale follows the new configuration.
///
/// The gradient clipping of the configuration, which clips each parameter's gradient separately, is kept. It is applied
/// after [`with_clipping`](Self::with_clipping).
#[doc(alias("GradScaler", "master weights", "O2"))]
#[derive(Clone, Debug)]
pub struct AmpOptimizer<C> {
    pub(super) config: C,
    pub(super) masters: Masters,
    pub(super) moments: Moments,
    pub(super) seed: u64,
    clipping: Option<Clipping>,
    norm: Option<GradientNorm>,
}

impl<C> AmpOptimizer<C> {
    /// Starts from the configuration of one of Burn's optimizers.
    pub fn new(config: C) -> Self {
        Self {
            config,
            masters: Masters::default(),
            moments: Moments::default(),
            seed: 0,
            clipping: None,
            norm: None,
        }
    }

    /// Sets the form in which the masters of parameters in half precision are kept.
    pub fn with_masters(self, masters: Masters) -> Self {
        Self { masters, ..self }
    }

    /// Sets the format in which Adam, AdamW and SGD keep their moments.
    pub fn with_moments(self, moments: Moments) -> Self {
        Self { moments, ..self }
    }

    /// Sets the seed of stochastic rounding, which is 0 otherwise.
    ///
    /// The random numbers are a function of the seed, the id of a parameter, the number of its step, and the index of an
    /// element, so a run that is resumed with the same seed draws the same ones.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
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

    /// Makes the optimizer.
    pub fn init<B, M>(&self) -> LossScaleOptimizer<AmpAdaptor<C, M, B>>
    where
        B: Trains,
        M: AutodiffModule<B>,
        C: OptimizerConfig<B::InnerBackend>,
    {
        let inner = AmpAdaptor::new(self);
        let selects_on_device = inner.is_fused();
        let mut optimizer = LossScaleOptimizer::new(inner);
        optimizer.selects_on_device = selects_on_device;
        optimizer.clipping = self.clipping;
        optimizer.norm = self.norm.clone();
        optimizer
    }
}

/// For [`memory::estimate`](crate::memory::estimate).
impl<B: Backend, C: OptimizerConfig<B>> OptimizerConfig<B> for AmpOptimizer<C> {
    type Optimizer = MasterWeights<C::Optimizer>;

    fn simple(&self) -> Self::Optimizer {
        MasterWeights::new(self.config.simple()).with_masters(self.masters)
    }

    fn clipping(&self) -> Option<GradientClipping> {
        self.config.clipping()
    }

    fn masters(&self) -> Masters {
        match self.config.rule() {
            Some(_) => self.masters,
            None => self.masters.one_by_one(),
        }
    }

    fn moment_bytes(&self, elements: usize, keeps_more: bool) -> Option<f64> {
        let rule = self.config.rule()?;
        let format = self.moments.format(elements, keeps_more);
        let words = format.words(elements).unwrap_or(elements);
        let bytes = 4.0 * words as f64 / elements.max(1) as f64;
        Some(bytes * rule.moments() as f64)
    }
}
