//! What the tests of this folder share.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use burn::{
    backend::Flex,
    module::{Module, Param},
    nn::{LayerNorm, LayerNormConfig, Linear, LinearConfig},
    optim::{AdamConfig, GradientsParams, Optimizer},
    tensor::{
        Bool, Distribution, Int, Tensor, TensorData,
        activation::{gelu, log_softmax, relu, sigmoid, softmax},
        backend::Backend,
    },
};
pub use burn_amp::{
    Amp, Autodiff,
    config::{
        Class, Compute, Config, ConfigError, ConfigSource, DynamicLossScale, Locate,
        LossScaleConfig, LossScaleMode, Op, Precision,
    },
    diagnose::NotFinite,
    full_precision, loss_scale,
    scaling::name_parameters,
};

/// Declares a source of a configuration. A macro, because each needs a type of its own.
macro_rules! policy {
    ($name:ident, $config:expr) => {
        struct $name;

        impl ConfigSource for $name {
            fn config() -> Result<Config, ConfigError> {
                Ok($config)
            }
        }
    };
}

pub(crate) use policy;

/// The default configuration with a compute dtype, and with changes.
pub fn computing_in(compute: Compute, change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config {
        compute,
        ..Config::default()
    };
    change(&mut config);
    config
}

/// A scale that does not move.
pub fn fixed(scale: f32) -> LossScaleConfig {
    let rule = DynamicLossScale {
        init: scale,
        ..DynamicLossScale::default()
    };
    LossScaleConfig {
        mode: LossScaleMode::Static,
        ..rule.into()
    }
}

/// The message of the panic that ends a run.
pub fn given_up(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("the run is given up");
    *panic.downcast::<String>().expect("a message")
}

/// Asserts that a message has some words.
#[track_caller]
pub fn says(message: &str, words: &str) {
    assert!(message.contains(words), "no `{words}` in: {message}");
}
