//! The backends on which a program runs. The policy is that of the process.

use std::{cell::Cell, marker::PhantomData, sync::OnceLock};

use burn_amp::{
    config::{Compute, Config, LossScaleConfig, Preset},
    scaling::LossScale,
};
use burn_autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};

use crate::random::{
    all::*,
    by_hand::{self, Scope, Uses},
    model::ParameterGradients,
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

    /// The loss scale of the last pass, or `None` after an overflow.
    fn scale(_grads: &<Self::B as AutodiffBackend>::Gradients) -> Option<f64> {
        Some(1.0)
    }

    /// Takes the gradients of the parameters out.
    fn parameters(
        grads: &mut <Self::B as AutodiffBackend>::Gradients,
        model: &Model<Self::B>,
        _scale: f64,
    ) -> ParameterGradients<Self::B> {
        model.gradients(grads)
    }

    /// Makes a step, whatever the optimizer.
    fn optimizer(optimizer: Optimizer) -> Option<Stepper<Self::B>> {
        (optimizer != Optimizer::None).then_some(Model::stepped)
    }

    /// The step of an optimizer.
    fn step(
        step: &mut Stepper<Self::B>,
        model: Model<Self::B>,
        grads: ParameterGradients<Self::B>,
    ) -> Model<Self::B> {
        step(model, grads)
    }
}

/// Plain Burn on the backend under test.
pub struct OnPlain<C = NoCheckpointing>(PhantomData<C>);

impl<C: CheckpointStrategy> Subject for OnPlain<C> {
    type B = burn_autodiff::Autodiff<Plain, C>;
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
    ) -> ParameterGradients<Self::B> {
        let unscaled = |gradient| {
            <Self::B as AutodiffBackend>::InnerBackend::float_mul_scalar(
                gradient,
                scale.recip().into(),
            )
        };
        let grads = model.gradients(grads).into_iter();
        by_hand::within(Scope::Exact, || {
            grads.map(|gradient| gradient.map(unscaled)).collect()
        })
    }

    fn step(
        step: &mut Stepper<Self::B>,
        model: Model<Self::B>,
        grads: ParameterGradients<Self::B>,
    ) -> Model<Self::B> {
        by_hand::within(Scope::Exact, || step(model, grads))
    }
}

thread_local! {
    /// The loss scale of the last pass of this thread; `None` after an overflow.
    static LAST_SCALE: Cell<Option<f64>> = const { Cell::new(None) };
}

/// burn-amp under the policy `P`.
pub struct Under<P, C = NoCheckpointing>(PhantomData<(P, C)>);

impl<P: Tested, C: CheckpointStrategy> Subject for Under<P, C> {
    type B = patched::Autodiff<Plain, C>;

    fn guard() -> Box<dyn std::any::Any> {
        let own = burn_amp::own_loss_scale(&burn_tensor::Device::default());
        Box::new(own.expect("burn-amp is in the tests"))
    }

    fn backward(root: FloatTensor<Self::B>, _: f64) -> <Self::B as AutodiffBackend>::Gradients {
        let handle = loss_scale();
        let (scale, skipped) = (handle.scale(), handle.skipped_steps());
        let grads = Self::B::backward(root);
        handle.settle();
        let is_finite = handle.skipped_steps() == skipped;
        LAST_SCALE.set(is_finite.then_some(f64::from(scale)));
        grads
    }

    fn scale(_: &<Self::B as AutodiffBackend>::Gradients) -> Option<f64> {
        LAST_SCALE.get()
    }
}

/// That of this thread.
fn loss_scale() -> LossScale {
    burn_amp::loss_scale(&burn_tensor::Device::default()).expect("burn-amp is in the tests")
}

/// Runs a function in which all ops compute in F32.
pub fn in_full_precision<T>(function: impl FnOnce() -> T) -> T {
    burn_amp::full_precision(function).expect("burn-amp is in the tests")
}

/// The name of the policy that programs of this process run under.
static IN_FORCE: OnceLock<&str> = OnceLock::new();

/// A policy under which random programs run.
pub trait Tested {
    const NAME: &str;

    /// Its configuration.
    fn config() -> Config;

    /// Puts it in force for this process.
    fn put_in_force() {
        IN_FORCE.get_or_init(|| {
            burn_amp::configure(&burn_tensor::Device::default(), Self::config())
                .expect("no tensor was made before");
            Self::NAME
        });
    }

    /// Whether programs of this process can run under the policy.
    fn is_in_force() -> bool {
        IN_FORCE.get() == Some(&Self::NAME)
    }
}

fn computing_in(compute: Compute) -> Config {
    Config {
        compute,
        ..Config::default()
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

/// Preset `o0`, which is plain Burn.
pub struct O0;

impl Tested for O0 {
    const NAME: &str = "o0";

    fn config() -> Config {
        Config {
            preset: Preset::O0,
            ..Config::default()
        }
    }
}

/// BF16.
pub struct Bf16;

impl Tested for Bf16 {
    const NAME: &str = "bf16";

    fn config() -> Config {
        computing_in(Compute::Bf16)
    }
}

/// F16, where the host waits for the check of each pass.
pub struct F16;

impl Tested for F16 {
    const NAME: &str = "f16";

    fn config() -> Config {
        in_f16(true)
    }
}

/// F16, where the loss scale stays on the device.
pub struct F16OnDevice;

impl Tested for F16OnDevice {
    const NAME: &str = "f16, scale on the device";

    fn config() -> Config {
        in_f16(false)
    }
}

/// The strategy under which a checkpointed program runs.
pub type Checkpointed = BalancedCheckpointing;
