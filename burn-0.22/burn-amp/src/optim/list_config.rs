//! The configurations whose optimizers step all parameters together.

use burn::{
    config::Config,
    grad_clipping::{GradientClipping, GradientClippingConfig},
    optim::{AdamConfig, AdamWConfig, SgdConfig},
};
use burn_amp_kernels::optimizer::Rule;
use serde::Deserialize;

use super::rule::{self, fields};

/// A configuration of Burn's whose optimizer steps all parameters together: that of Adam, AdamW or SGD.
pub trait ListConfig: Config {
    /// The optimizer, with its constants.
    #[doc(hidden)]
    fn rule(&self) -> Rule;

    /// The clipping of each parameter's gradient that the configuration asks for.
    #[doc(hidden)]
    fn clipping(&self) -> Option<GradientClipping> {
        #[derive(Deserialize)]
        struct GradClipping {
            #[serde(alias = "gradient_clipping")]
            grad_clipping: Option<GradientClippingConfig>,
        }

        let clipping = fields::<GradClipping>(self).grad_clipping;
        clipping.map(|clipping| clipping.init())
    }
}

impl ListConfig for AdamConfig {
    fn rule(&self) -> Rule {
        rule::adam(self)
    }
}

impl ListConfig for AdamWConfig {
    fn rule(&self) -> Rule {
        rule::adam_w(self)
    }
}

impl ListConfig for SgdConfig {
    fn rule(&self) -> Rule {
        rule::sgd(self, |momentum| f64::from(momentum as f32))
    }
}
