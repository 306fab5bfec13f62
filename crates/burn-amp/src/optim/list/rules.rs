//! The rules of Burn's configurations, and Burn's form of a state.

use burn::{
    config::Config,
    optim::{decay::WeightDecayConfig, momentum::MomentumConfig},
    tensor::{Tensor, backend::Backend},
};
use burn_amp_kernels::optimizer::AdamRule;
use serde::de::DeserializeOwned;

/// The state of an optimizer as Burn keeps it: the number of steps, and the moments.
pub(in crate::optim) type BurnState<B, const D: usize> = (usize, Vec<Tensor<B, D>>);

/// Reads a configuration of Burn's, whose fields are private, by their names.
fn fields<T: DeserializeOwned>(config: &impl Config) -> T {
    let fields = serde_json::to_value(config).and_then(serde_json::from_value);
    fields.expect("Burn 0.21.0's configurations have these fields")
}

// In each of the modules `rule` gets a function that rounds a number to an element of the backend.

pub(in crate::optim) mod adam {
    use burn::optim::{AdamConfig, AdamState, AdaptiveMomentumState};
    use burn_amp_kernels::optimizer::Rule;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct AdamFields {
        beta_1: f32,
        beta_2: f32,
        epsilon: f32,
        amsgrad: bool,
        weight_decay: Option<WeightDecayConfig>,
    }

    pub fn rule(config: &AdamConfig, _: impl Fn(f64) -> f64) -> Rule {
        let AdamFields {
            beta_1,
            beta_2,
            epsilon,
            amsgrad,
            weight_decay,
        } = fields(config);
        Rule::Adam(AdamRule {
            beta_1,
            beta_2,
            epsilon,
            amsgrad,
            penalty: weight_decay.map(|decay| decay.penalty),
        })
    }

    pub fn state<B: Backend, const D: usize>(parts: BurnState<B, D>) -> Option<AdamState<B, D>> {
        momentum(parts).map(AdamState::new)
    }

    pub fn parts<B: Backend, const D: usize>(state: AdamState<B, D>) -> BurnState<B, D> {
        momentum_parts(state.momentum)
    }

    pub fn momentum<B: Backend, const D: usize>(
        (time, moments): BurnState<B, D>,
    ) -> Option<AdaptiveMomentumState<B, D>> {
        let mut moments = moments.into_iter();
        let mut momentum = AdaptiveMomentumState::new(time, moments.next()?, moments.next()?);
        momentum.max_moment_2 = moments.next();
        Some(momentum)
    }

    pub fn momentum_parts<B: Backend, const D: usize>(
        momentum: AdaptiveMomentumState<B, D>,
    ) -> BurnState<B, D> {
        let AdaptiveMomentumState {
            time,
            moment_1,
            moment_2,
            max_moment_2,
        } = momentum;
        let moments = [moment_1, moment_2].into_iter().chain(max_moment_2);
        (time, moments.collect())
    }
}

pub(in crate::optim) mod adam_w {
    use burn::optim::{AdamWConfig, AdamWState};
    use burn_amp_kernels::optimizer::{Decay, Rule};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct AdamWFields {
        beta_1: f32,
        beta_2: f32,
        epsilon: f32,
        weight_decay: f32,
        cautious_weight_decay: bool,
        amsgrad: bool,
    }

    pub fn rule(config: &AdamWConfig, _: impl Fn(f64) -> f64) -> Rule {
        let AdamWFields {
            beta_1,
            beta_2,
            epsilon,
            weight_decay,
            cautious_weight_decay,
            amsgrad,
        } = fields(config);
        let adam = AdamRule {
            beta_1,
            beta_2,
            epsilon,
            amsgrad,
            penalty: None,
        };
        Rule::AdamW(
            adam,
            Decay {
                rate: weight_decay,
                cautious: cautious_weight_decay,
            },
        )
    }

    pub fn state<B: Backend, const D: usize>(parts: BurnState<B, D>) -> Option<AdamWState<B, D>> {
        adam::momentum(parts).map(AdamWState::new)
    }

    pub fn parts<B: Backend, const D: usize>(state: AdamWState<B, D>) -> BurnState<B, D> {
        adam::momentum_parts(state.momentum)
    }
}

pub(in crate::optim) mod sgd {
    use burn::optim::{SgdConfig, SgdState, SimpleOptimizer, momentum::MomentumState};
    use burn_amp_kernels::optimizer::{Rule, SgdMomentum, SgdRule};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct SgdFields {
        weight_decay: Option<WeightDecayConfig>,
        momentum: Option<MomentumConfig>,
    }

    pub fn rule(config: &SgdConfig, as_element: impl Fn(f64) -> f64) -> Rule {
        let SgdFields {
            weight_decay,
            momentum,
        } = fields(config);
        Rule::Sgd(SgdRule {
            penalty: weight_decay.map(|decay| decay.penalty),
            momentum: momentum.map(|momentum| SgdMomentum {
                // Burn keeps the momentum, and no other number, as an element of the backend.
                momentum: as_element(momentum.momentum),
                dampening: momentum.dampening,
                nesterov: momentum.nesterov,
            }),
        })
    }

    pub fn state<B: Backend, const D: usize>(
        (_, moments): BurnState<B, D>,
    ) -> Option<SgdState<B, D>> {
        let velocity = moments.into_iter().next()?;
        Some(SgdState::new(Some(MomentumState::new(velocity))))
    }

    /// The velocity of Burn's state is private, but a step of momentum 1 and learning rate -1 from zeros, without a
    /// gradient, ends at it: `0 - -(0 + 1 · velocity)`.
    pub fn parts<B: Backend, const D: usize>(state: SgdState<B, D>) -> BurnState<B, D> {
        let Some(momentum) = state.momentum else {
            return (0, Vec::new());
        };
        let device = B::Device::default();
        let momentum = momentum.to_device(&device);
        let undampened = MomentumConfig::new().with_momentum(1.0).with_dampening(0.0);
        let optimizer = SgdConfig::new()
            .with_momentum(Some(undampened))
            .build::<B>();
        let zero = Tensor::<B, D>::zeros([1; D], &device);
        let state = SgdState::new(Some(momentum));
        let (velocity, _) = optimizer.step(-1.0, zero.clone(), zero, Some(state));
        (1, vec![velocity])
    }
}
