//! The new parameters of an optimizer that is not burn-amp's.

use burn_amp_core::{Config, Precision};

use super::scope;
use crate::{graph::Stepped, warn};

/// Warns if an optimizer that is not burn-amp's has made a parameter, which is `stored` so, and should not.
///
/// burn-amp's own optimizers never trigger it: they step the master of a parameter in half precision and round it, and
/// know the outcome of the backward passes, or leave the gradients to the step of all parameters.
#[cold]
pub(crate) fn check(stepped: Stepped, stored: Precision, config: &Config) {
    let Stepped { undecided, low } = stepped;
    warn::of_plain_step(low.filter(|_| !stored.is_low()), undecided);
    if !config.parameters.is_empty() && !scope::is_full_precision() {
        warn::of_parameters_without_names();
    }
}
