//! Warnings that a process gives once.

use std::sync::Once;

use burn_amp_core::Dtype;

/// A warning that is given at most once in a process.
///
/// It goes to `tracing` and to standard error: many programs install no subscriber, and what is warned of here changes
/// the result of a training run.
pub(crate) struct Warning(Once);

impl Warning {
    pub(crate) const fn new() -> Self {
        Self(Once::new())
    }

    /// Gives the warning, unless it was given before.
    #[cold]
    pub(crate) fn give(&self, message: impl FnOnce() -> String) {
        self.0.call_once(|| {
            let message = message();
            tracing::warn!("burn-amp: {message}");
            eprintln!("burn-amp: warning: {message}");
        });
    }
}

/// Warns that an optimizer without master weights steps a parameter that is stored in half precision.
#[cold]
pub(crate) fn of_a_plain_step_on(stored: Dtype) {
    static WARNING: Warning = Warning::new();
    WARNING.give(|| {
        format!(
            "a plain optimizer stepped a parameter that is stored in {stored}: it is stored in f32 from now on, and what \
             `preset = \"o2\"` saves is lost; `AmpOptimizer::new(AdamConfig::new()).init()` steps f32 masters and keeps \
             the parameter in {stored}"
        )
    });
}

/// Warns that an optimizer that cannot skip on the device steps with gradients whose outcome is on the device.
#[cold]
pub(crate) fn of_a_plain_undecided_step() {
    static WARNING: Warning = Warning::new();
    WARNING.give(|| {
        "a plain optimizer stepped with gradients whose outcome is still on the device (`loss_scale.sync = false`): after \
         an overflow they are zeros, and the step is not skipped, so that Adam moves by its momentum; \
         `AmpOptimizer::new(AdamConfig::new()).init()` skips it"
            .to_string()
    });
}
