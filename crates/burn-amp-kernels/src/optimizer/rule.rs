//! The optimizers, with their constants as Burn rounds them.
//!
//! What has serde's names for the fields of Burn's configurations is read from one.

use serde::Deserialize;

/// An optimizer that can step a list of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Burn's `Adam`: <https://arxiv.org/abs/1412.6980>. Its decay adds a multiple of the parameter to the gradient.
    Adam(AdamRule),
    /// Burn's `AdamW`: <https://arxiv.org/abs/1711.05101>. Its decay shrinks the parameter.
    AdamW(AdamRule, Decay),
    /// Burn's `Sgd`.
    Sgd(SgdRule),
}

/// The constants of Adam and AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct AdamRule {
    /// The decay of the first moment.
    pub beta_1: f32,
    /// The decay of the second moment.
    pub beta_2: f32,
    /// What is added to the root of the second moment.
    pub epsilon: f32,
    /// Whether the largest second moment so far is used: <https://openreview.net/forum?id=ryQu7f-RZ>.
    pub amsgrad: bool,
    /// Adam's L2 penalty.
    #[serde(skip)]
    pub penalty: Option<f32>,
}

/// The decoupled weight decay of AdamW.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Decay {
    /// The part of the parameter that a learning rate of 1 takes away.
    #[serde(rename = "weight_decay")]
    pub rate: f32,
    /// Whether only the elements decay that the first moment moves towards zero, too: <https://arxiv.org/abs/2510.12402>.
    #[serde(rename = "cautious_weight_decay")]
    pub cautious: bool,
}

/// The constants of SGD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdRule {
    /// The L2 penalty.
    pub penalty: Option<f32>,
    /// The momentum; `None` for plain SGD, which keeps no state.
    pub momentum: Option<SgdMomentum>,
}

/// The momentum of SGD.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SgdMomentum {
    /// The factor of the velocity.
    pub momentum: f64,
    /// The part of the gradient that does not enter the velocity, from the second step on.
    pub dampening: f64,
    /// Whether the step looks ahead by Nesterov's rule.
    pub nesterov: bool,
}

impl Rule {
    /// Returns how many moments a parameter has.
    pub fn moments(&self) -> usize {
        match self {
            Self::Adam(adam) | Self::AdamW(adam, _) => 2 + usize::from(adam.amsgrad),
            Self::Sgd(sgd) => usize::from(sgd.momentum.is_some()),
        }
    }
}

impl AdamRule {
    /// Returns `1 - beta^time` for both moments.
    pub(super) fn corrections(&self, time: i32) -> [f32; 2] {
        [self.beta_1, self.beta_2].map(|beta| 1.0 - beta.powi(time))
    }
}
