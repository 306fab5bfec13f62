//! The optimizer that follows the policy in force.

use burn::optim::ModuleOptimizer;
use burn_amp_decorator::optimizer::{Clipping, GradientNorm, ListOptimizer, Masters, Moments};

use super::{AmpModuleOptimizer, ListConfig, one_step::OneStep};
use crate::{Error, is_on};

/// Makes Adam, AdamW or SGD follow the policy in force, whatever `amp.toml` says.
///
/// ```no_run
/// use burn::optim::AdamConfig;
/// use burn_amp::optim::{AmpOptimizer, Clipping};
///
/// let mut optimizer = AmpOptimizer::new(AdamConfig::new()) // was: AdamConfig::new().init()
///     .with_clipping(Clipping::GlobalNorm(1.0))
///     .init()?;
/// # Ok::<(), burn_amp::Error>(())
/// ```
///
/// | in the presence of | it |
/// |---|---|
/// | many parameters | steps them all together: one launch takes many of them where the backend has a kernel, which also writes the copies in low precision that the next forward pass reads |
/// | a parameter stored in half precision (`o2`, `o3`, a half-precision checkpoint) | steps its F32 master |
/// | `loss_scale.sync = false` | skips steps on the device, without waiting for it |
/// | accumulated gradients | skips the whole step if one of its micro-batches overflowed |
///
/// Where the policy needs none of this, it makes the same steps as Burn's optimizer, op for op, and its record is one that
/// Burn's optimizer reads. A kernel may round each sum of a product once instead of twice.
///
/// [`init`](Self::init) is for a loop of your own. Burn's `Learner` takes a `ModuleOptimizer`, which passes on one parameter
/// after the other; [`init_for_learner`](Self::init_for_learner) makes one.
///
/// The gradient clipping of the configuration, which clips each parameter's gradient separately, is kept. It is applied before
/// that of [`with_clipping`](Self::with_clipping).
#[doc(alias("GradScaler", "master weights", "O2"))]
#[derive(Clone, Debug)]
pub struct AmpOptimizer<C> {
    config: C,
    masters: Masters,
    moments: Moments,
    seed: u64,
    clipping: Option<Clipping>,
    norm: Option<GradientNorm>,
}

impl<C: ListConfig> AmpOptimizer<C> {
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

    /// Sets the format in which the moments are kept.
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

    /// Makes the optimizer for a training loop of your own.
    ///
    /// # Errors
    ///
    /// Returns an error if burn-amp is not in the program.
    pub fn init(&self) -> Result<AmpModuleOptimizer, Error> {
        Ok(AmpModuleOptimizer::new(
            self.list(),
            self.module_optimizer()?,
            self.clipping,
            self.norm.clone(),
        ))
    }

    /// Makes the optimizer for Burn's `Learner`, and for groups of parameters with optimizers of their own.
    ///
    /// It steps one parameter after the other: a launch for each where the backend has a kernel. It has the masters and the
    /// formats of moments. Of the rest of [`AmpOptimizer`] it has what Burn's own optimizers have: an overflowed step is skipped with
    /// `loss_scale.sync = true`, as long as no gradients are accumulated. Burn does not say which module a parameter
    /// belongs to, so small parameters alone keep their moments in F32, and not those of all embeddings.
    ///
    /// # Errors
    ///
    /// Returns an error if burn-amp is not in the program, or if the gradients of all parameters are to be clipped or measured
    /// together.
    pub fn init_for_learner(&self) -> Result<ModuleOptimizer, Error> {
        if self.clipping.is_some() || self.norm.is_some() {
            return Err(Error::OneByOne);
        }
        self.module_optimizer()
    }

    fn module_optimizer(&self) -> Result<ModuleOptimizer, Error> {
        if !is_on() {
            return Err(Error::NotPatched);
        }
        let optimizer = ModuleOptimizer::from(OneStep(self.list()));
        Ok(match self.config.clipping() {
            Some(clipping) => optimizer.with_grad_clipping(clipping),
            None => optimizer,
        })
    }

    fn list(&self) -> ListOptimizer {
        ListOptimizer {
            rule: self.config.rule(),
            masters: self.masters,
            moments: self.moments,
            seed: self.seed,
        }
    }
}
