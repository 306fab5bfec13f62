//! The rules of Burn's configurations by which all parameters step together.

use burn::{
    config::Config,
    optim::{decay::WeightDecayConfig, momentum::MomentumConfig},
};
use burn_amp_kernels::optimizer::{AdamRule, Rule, SgdMomentum, SgdRule};
use serde::{Deserialize, de::DeserializeOwned};

/// Reads a configuration of Burn's, whose fields are private, by their names.
pub(super) fn fields<T: DeserializeOwned>(config: &impl Config) -> T {
    let fields = serde_json::to_value(config).and_then(serde_json::from_value);
    fields.expect("the configurations of the supported releases of Burn have these fields")
}

/// The rule of an `AdamConfig`.
pub(super) fn adam(config: &impl Config) -> Rule {
    Rule::Adam(AdamRule {
        penalty: penalty(config),
        ..fields(config)
    })
}

/// The rule of an `AdamWConfig`.
pub(super) fn adam_w(config: &impl Config) -> Rule {
    Rule::AdamW(fields(config), fields(config))
}

/// The rule of an `SgdConfig`. Burn keeps the momentum, and no other number, as an element of the backend: it is `rounded` to one.
pub(super) fn sgd(config: &impl Config, rounded: impl FnOnce(f64) -> f64) -> Rule {
    #[derive(Deserialize)]
    struct Momentum {
        momentum: Option<MomentumConfig>,
    }

    let Momentum { momentum } = fields(config);
    Rule::Sgd(SgdRule {
        penalty: penalty(config),
        momentum: momentum.map(|momentum| SgdMomentum {
            momentum: rounded(momentum.momentum),
            dampening: momentum.dampening,
            nesterov: momentum.nesterov,
        }),
    })
}

/// The penalty of a configuration whose decay is one.
fn penalty(config: &impl Config) -> Option<f32> {
    #[derive(Deserialize)]
    struct Penalty {
        weight_decay: Option<WeightDecayConfig>,
    }

    let decay = fields::<Penalty>(config).weight_decay;
    decay.map(|decay| decay.penalty)
}
