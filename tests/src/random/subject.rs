//! The backends on which a program runs.

use std::marker::PhantomData;

use burn_amp::{
    Amp,
    scaling::{Gradients, Outcome as PassOutcome, own_loss_scale},
};

use strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};

use super::all::*;
use super::{
    by_hand::{self, Scope, Uses},
    model::{Unscale, stepper},
};

/// A backend, and what is particular about it.
pub trait Subject {
    type B: AutodiffBackend;

    /// Whether the host should learn of an overflow after the optimizer's step only.
    const CHECKS_LATE: bool = false;

    /// What is kept while a program runs.
    fn guard() -> Box<dyn std::any::Any> {
        Box::new(())
    }

    /// Runs a backward pass with a loss scale that is given where the subject has none of its own.
    fn backward(
        root: FloatTensor<Self::B>,
        _scale: f64,
    ) -> <Self::B as AutodiffBackend>::Gradients {
        Self::B::backward(root)
    }

    /// The loss scale of a pass, or `None` after an overflow.
    fn scale(_grads: &<Self::B as AutodiffBackend>::Gradients) -> Option<f64> {
        Some(1.0)
    }

    /// Takes the gradients of the parameters out.
    fn parameters(
        grads: &mut <Self::B as AutodiffBackend>::Gradients,
        model: &Model<Self::B>,
        _scale: f64,
    ) -> GradientsParams {
        GradientsParams::from_module(grads, model)
    }

    /// Makes an optimizer, Burn's or burn-amp's.
    fn optimizer(optimizer: Optimizer) -> Option<Stepper<Self::B>> {
        plain_optimizer(optimizer)
    }

    /// The step of an optimizer.
    fn step(
        step: &mut Stepper<Self::B>,
        model: Model<Self::B>,
        grads: GradientsParams,
    ) -> Model<Self::B> {
        step(model, grads)
    }
}

/// Burn's optimizer.
fn plain_optimizer<B: AutodiffBackend>(optimizer: Optimizer) -> Option<Stepper<B>>
where
    Model<B>: AutodiffModule<B>,
{
    match optimizer {
        Optimizer::None => None,
        Optimizer::Sgd => Some(stepper(SgdConfig::new().init())),
        Optimizer::Momentum => Some(stepper(momentum().init())),
        Optimizer::Adam | Optimizer::BurnsAdam => Some(stepper(AdamConfig::new().init())),
        Optimizer::AdamW => Some(stepper(AdamWConfig::new().init())),
    }
}

fn momentum() -> SgdConfig {
    let momentum = MomentumConfig {
        momentum: 0.9,
        dampening: 0.0,
        nesterov: false,
    };
    SgdConfig::new().with_momentum(Some(momentum))
}

/// Plain Burn on the backend under test.
pub struct OnPlain<C = NoCheckpointing>(PhantomData<C>);

impl<C: CheckpointStrategy> Subject for OnPlain<C> {
    type B = Autodiff<Plain, C>;
}

/// Casts by hand; outside [`by_hand::rounding`], exact values.
pub struct OnByHand;

impl Subject for OnByHand {
    type B = Uses;

    fn backward(root: FloatTensor<Self::B>, scale: f64) -> <Self::B as AutodiffBackend>::Gradients {
        let root = by_hand::within(Scope::Exact, || {
            Self::B::float_mul_scalar(root, scale.into())
        });
        by_hand::within(Scope::Backward, || Self::B::backward(root))
    }

    fn parameters(
        grads: &mut <Self::B as AutodiffBackend>::Gradients,
        model: &Model<Self::B>,
        scale: f64,
    ) -> GradientsParams {
        let mut unscale = Unscale {
            grads,
            factor: scale.recip(),
            taken: GradientsParams::new(),
        };
        by_hand::within(Scope::Exact, || model.visit(&mut unscale));
        unscale.taken
    }

    fn step(
        step: &mut Stepper<Self::B>,
        model: Model<Self::B>,
        grads: GradientsParams,
    ) -> Model<Self::B> {
        by_hand::within(Scope::Exact, || step(model, grads))
    }
}

/// burn-amp under the policy `P`.
pub struct Under<P, C = NoCheckpointing>(PhantomData<(P, C)>);

impl<P: Tested, C: CheckpointStrategy> Subject for Under<P, C> {
    type B = burn_amp::Autodiff<Amp<Plain, P>, C>;

    const CHECKS_LATE: bool = P::CHECKS_LATE;

    fn guard() -> Box<dyn std::any::Any> {
        Box::new(own_loss_scale::<Self::B>(&Default::default()))
    }

    fn scale(grads: &Gradients<Plain>) -> Option<f64> {
        (grads.outcome() == PassOutcome::Finite).then(|| f64::from(grads.scale()))
    }

    fn optimizer(optimizer: Optimizer) -> Option<Stepper<Self::B>> {
        match optimizer {
            Optimizer::None => None,
            Optimizer::Sgd => Some(amps::<P, C, _>(SgdConfig::new())),
            Optimizer::Momentum => Some(amps::<P, C, _>(momentum())),
            Optimizer::BurnsAdam if !P::CHECKS_LATE => plain_optimizer(optimizer),
            Optimizer::Adam | Optimizer::BurnsAdam => Some(amps::<P, C, _>(AdamConfig::new())),
            Optimizer::AdamW => Some(amps::<P, C, _>(AdamWConfig::new())),
        }
    }
}

/// The optimizer of burn-amp with a configuration.
fn amps<P, C, O>(config: O) -> Stepper<burn_amp::Autodiff<Amp<Plain, P>, C>>
where
    P: Tested,
    C: CheckpointStrategy,
    O: OptimizerConfig<Amp<Plain, P>> + 'static,
{
    match P::STEPS_TOGETHER {
        true => stepper(AmpOptimizer::new(config).init()),
        false => stepper(AmpOptimizer::new(OneByOne(config)).init()),
    }
}

/// A policy under which random programs run.
pub trait Tested: ConfigSource + Clone + std::fmt::Debug + Default {
    const CHECKS_LATE: bool = false;

    /// Whether the optimizer steps all parameters together.
    const STEPS_TOGETHER: bool = true;

    /// Whether programs of this process can run under the policy.
    fn is_in_force() -> bool {
        true
    }
}

/// F16 with a loss scale that starts at once, so that a run does not depend on those before it.
fn in_f16(sync: bool) -> Config {
    let rule = DynamicLossScale {
        init: 1024.0,
        search: false,
        // Programs whose gradients overflow at every scale end by themselves.
        patience: u32::MAX,
        ..DynamicLossScale::default()
    };
    Config {
        loss_scale: LossScaleConfig {
            sync,
            ..rule.into()
        },
        ..computing_in(Compute::F16)
    }
}

policy!(
    /// Preset `o0`, which is plain Burn.
    O0,
    computing_in(Compute::F32)
);
policy!(
    /// BF16.
    Bf16,
    computing_in(Compute::Bf16)
);
policy!(
    /// BF16, where a graph keeps eight bits.
    Bf16Saved8Bit,
    in_bf16(|it| it.saved = burn_amp::config::Saved::EightBits)
);
policy!(
    /// F16, where the host waits for the check of each pass.
    F16,
    in_f16(true)
);
policy!(
    /// F16, where the loss scale stays on the device.
    F16OnDevice,
    in_f16(false)
);

impl Tested for O0 {
    /// The kernel over all parameters rounds a product and a sum once, and Burn's ops twice. Its reference has their bits.
    const STEPS_TOGETHER: bool = cfg!(not(feature = "cubecl"));
}
impl Tested for Bf16 {}
impl Tested for Bf16Saved8Bit {}
impl Tested for F16 {}
impl Tested for F16OnDevice {
    const CHECKS_LATE: bool = true;
}

/// Runs a function in which all ops compute in F32.
pub fn in_full_precision<T>(function: impl FnOnce() -> T) -> T {
    burn_amp::full_precision(function)
}

/// The strategy under which a checkpointed program runs.
pub type Checkpointed = BalancedCheckpointing;
