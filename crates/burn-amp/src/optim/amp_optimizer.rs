//! The one optimizer entry that follows the policy in force.

use burn::{
    module::AutodiffModule, optim::adaptor::OptimizerAdaptor, tensor::backend::AutodiffBackend,
};

use super::{
    Clipping, GradientNorm, LossScaleOptimizer, MasterWeights, Masters, OptimizerConfig,
    SkipOnDevice, config::replace_optimizer,
};
use crate::{backend::Amped, graph::NoGraph};

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
/// | where | what it does | the part that does it |
/// |---|---|---|
/// | a parameter stored in half precision (`o2`, `o3`, a half-precision checkpoint) | steps its F32 master | [`MasterWeights`] |
/// | `loss_scale.sync = false` | skips on the device, without waiting for it | [`SkipOnDevice`] |
/// | accumulated gradients, several devices | skips the whole effective batch if a part of it overflowed | [`LossScaleOptimizer`] |
/// | a checkpoint | saves the loss scale in the optimizer's record | [`LossScaleOptimizer`] |
///
/// Where the policy needs nothing of it, it makes the steps of Burn's optimizer op for op, and keeps the same state.
///
/// A record that was saved under one policy loads under another: masters begin as the parameters, the loss scale obeys
/// the new configuration.
///
/// The gradient clipping of the configuration, which clips each parameter's gradient by itself, is kept, and comes after
/// [`with_clipping`](Self::with_clipping).
#[derive(Clone, Debug)]
pub struct AmpOptimizer<C> {
    config: C,
    masters: Masters,
    clipping: Option<Clipping>,
    norm: Option<GradientNorm>,
}

/// The optimizer of a configuration `C` as an [`AmpOptimizer`] adapts it to a module.
pub type AmpAdaptor<C, M, B> = OptimizerAdaptor<
    MasterWeights<
        SkipOnDevice<<C as OptimizerConfig<<B as AutodiffBackend>::InnerBackend>>::Optimizer>,
    >,
    M,
    B,
>;

impl<C> AmpOptimizer<C> {
    /// Starts from the configuration of one of Burn's optimizers.
    pub fn new(config: C) -> Self {
        Self {
            config,
            masters: Masters::default(),
            clipping: None,
            norm: None,
        }
    }

    /// Sets where the masters of parameters stored in half precision are kept.
    pub fn with_masters(self, masters: Masters) -> Self {
        Self { masters, ..self }
    }

    /// Clips the gradients of every step, all parameters together, after unscaling.
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
        B: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
        M: AutodiffModule<B>,
        C: OptimizerConfig<B::InnerBackend>,
    {
        // Selection inside of the masters keeps one copy of them, and not the old and the new one.
        let inner = replace_optimizer(self.config.adaptor(), |optimizer| {
            MasterWeights::new(SkipOnDevice::new(optimizer)).with_masters(self.masters)
        });
        let mut optimizer = LossScaleOptimizer::selecting_on_device(inner);
        if let Some(clipping) = self.clipping {
            optimizer = optimizer.with_clipping(clipping);
        }
        match &self.norm {
            Some(norm) => optimizer.with_gradient_norm(norm),
            None => optimizer,
        }
    }
}
