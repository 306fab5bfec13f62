//! What burn-amp says to a program that listens to no log: warnings, once per process, and what it has decided.

use std::{
    fmt::{self, Display},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

use burn_amp_core::{Op, Precision, Preset, report::Site};

/// A warning that is given at most once per process.
///
/// It goes to `tracing` and to standard error: many programs install no subscriber, and these warnings are about things
/// that change the result of a training run.
pub struct Warning {
    given: Once,
    /// The section of the book's page of messages.
    section: &'static str,
}

impl Warning {
    pub const fn new(section: &'static str) -> Self {
        Self {
            given: Once::new(),
            section,
        }
    }

    /// Gives the warning, unless it was given before.
    #[cold]
    pub fn give(&self, message: impl FnOnce() -> String) {
        self.given.call_once(|| Self::again(self.section, message));
    }

    /// Gives a warning that its caller gives once for each matter.
    #[cold]
    pub fn again(section: &'static str, message: impl FnOnce() -> String) {
        let message = format!("{} {}", message(), See(section));
        tracing::warn!("burn-amp: {message}");
        eprintln!("burn-amp: warning: {message}");
    }
}

/// The place of a message in the book, at the end of the message: `[messages#a-skipped-step]`.
pub struct See(pub &'static str);

impl Display for See {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[messages#{}]", self.0)
    }
}

/// Says what was decided: to `tracing`, or to standard error if the program has no subscriber.
pub(crate) fn say(message: &str) {
    tracing::info!("burn-amp: {message}");
    if !tracing::dispatcher::has_been_set() {
        eprintln!("burn-amp: {message}");
    }
}

/// Warns that `compute = "auto"` lowers nothing on a device: it accelerates no low dtype, or its products in one do not run.
pub(crate) fn of_nothing_lowered(device: impl Display, products_run: bool) {
    static NOTHING: Warning = Warning::new("nothing-is-lowered");

    NOTHING.give(|| {
        if !products_run {
            return format!(
                "everything stays in f32 on {device}: with TMA (compute capability 9.0 and later) products in half precision \
                 fail in Burn 0.22.1, with and without burn-amp"
            );
        }
        format!(
            "{device} has no accelerated bf16 or f16, so everything stays in f32; set `compute = \"bf16\"` or \
             `\"f16\"` in amp.toml to use it anyway (emulated)"
        )
    });
}

/// Whether the parameters of some model were cast in this process.
static PARAMETERS_CAST: AtomicBool = AtomicBool::new(false);

/// Notes that the parameters of a model were cast, so that [`of_preset_alone`] does not warn.
pub fn parameters_were_cast() {
    PARAMETERS_CAST.store(true, Ordering::Relaxed);
}

/// Warns that a preset which stores parameters in half precision is in force, and no parameters were cast.
#[cold]
pub(crate) fn of_preset_alone(preset: Preset, compute: Precision) {
    static ALONE: Warning = Warning::new("a-preset-without-cast-parameters");

    if !PARAMETERS_CAST.load(Ordering::Relaxed) {
        ALONE.give(|| {
            format!(
                "preset {preset} alone stores no parameter in {compute}: `burn_amp::cast_params(model)` does, and \
                 `AmpOptimizer::new(AdamConfig::new()).init()` steps them"
            )
        });
    }
}

/// Warns if a plain optimizer has stepped a parameter in the `low` dtype, or with gradients whose outcome is not known.
pub(crate) fn of_plain_step(low: Option<Precision>, undecided: bool) {
    static LOW: Warning = Warning::new("a-plain-optimizer-and-half-parameters");
    static UNDECIDED: Warning = Warning::new("a-plain-optimizer-and-sync--false");

    if let Some(stored) = low {
        LOW.give(|| {
            format!(
                "a plain optimizer stepped a parameter that is stored in {stored}: it is stored in f32 from now on, \
                 and the memory that half precision saves is lost; `AmpOptimizer::new(AdamConfig::new()).init()` \
                 steps an f32 master and keeps the parameter in {stored}"
            )
        });
    }
    if undecided {
        UNDECIDED.give(|| {
            "a plain optimizer stepped with gradients whose outcome is still on the device (`loss_scale.sync = \
             false`): after an overflow they are zeros, and the step is not skipped, so that Adam moves by its \
             momentum; `AmpOptimizer::new(AdamConfig::new()).init()` skips it"
                .to_string()
        });
    }
}

/// Warns if gradients have overflowed in many steps in a row at a static loss scale; `last` describes the last of them.
pub fn of_static_scale(in_a_row: u32, scale: f32, last: impl Display) {
    static STATIC: Warning = Warning::new("a-static-scale-that-overflows");
    /// So many bad batches in a row are no accident.
    const STEPS: u32 = 10;

    if in_a_row >= STEPS {
        STATIC.give(|| {
            let remedy = match scale <= 1.0 {
                true => "set `overflow.locate = \"on_skip\"`, which says with which op it begins",
                false => {
                    "set a smaller `loss_scale.init`, or `loss_scale.mode = \"dynamic\"`, which finds a scale"
                }
            };
            format!(
                "{in_a_row} steps in a row were skipped, because gradients overflow at a static loss scale: nothing is \
                 learned; the last: {last}; {remedy}"
            )
        });
    }
}

/// Warns if gradients have overflowed again and again at the smallest loss scale, with finite steps in between; `last`
/// describes the last of these overflows.
pub(crate) fn of_smallest_scale(overflows: u32, last: impl Display) {
    static SMALLEST: Warning = Warning::new("overflows-at-the-smallest-scale");
    /// A few bad batches are no reason to speak up.
    const OVERFLOWS: u32 = 5;

    if overflows >= OVERFLOWS {
        SMALLEST.give(|| {
            format!(
                "gradients overflowed {overflows} times at the smallest loss scale (`loss_scale.min`), at which f16 turns \
                 small gradients of the other steps to zero; the last: {last}; if these steps are of another model or \
                 another loss, give it a loss scale of its own with `burn_amp::scaling::own_loss_scale`, and look for inf \
                 or NaN in it"
            )
        });
    }
}

/// Warns that an overflow has lowered the loss scale to `scale`, below 1; `last` describes the overflow.
#[cold]
pub(crate) fn of_scale_below_1(scale: impl Display, last: impl Display) {
    static BELOW: Warning = Warning::new("a-loss-scale-below-1");

    BELOW.give(|| {
        format!(
            "the loss scale fell below 1, to {scale}: f16 turns small gradients to zero sooner than without loss scaling, and \
             keeps few bits of others; {last}; if other models or losses of this process overflow, give them a loss scale \
             of their own with `burn_amp::scaling::own_loss_scale`; take the mean of a loss that is a sum; or set \
             `loss_scale.min = 1.0`, which ends a run whose gradients need less"
        )
    });
}

/// Warns that F16 flushes a `share` of a gradient to zero, at least, in a pass at this loss scale.
#[cold]
pub(crate) fn of_flushed(share: f64, shape: &[usize], scale: impl Display) {
    static FLUSHED: Warning = Warning::new("gradients-that-f16-flushes-to-zero");

    FLUSHED.give(|| {
        format!(
            "f16 flushed at least {:.0} % of a gradient {shape:?} to zero, at a loss scale of {scale}: a larger scale, which \
             overflows of another model or loss of this process may prevent (`burn_amp::scaling::own_loss_scale`), keeps \
             them; or set `compute = \"bf16\"`, or compute what is behind it in f32, with \
             `burn_amp::full_precision(|| ..)`",
            share * 100.0
        )
    });
}

/// Warns if a plain optimizer has stepped, whose new parameters have no names, although `[parameters]` asks for them.
#[cold]
pub(crate) fn of_parameters_without_names() {
    static NAMELESS: Warning = Warning::new("names-that-a-plain-optimizer-loses");

    NAMELESS.give(|| {
        "`[parameters]` knows parameters by their names, and those that a plain optimizer makes in its step have none: \
         the rules do not apply after it; `AmpOptimizer::new(AdamConfig::new()).init()` tells the names in each step"
            .to_string()
    });
}

/// Warns that a parameter was read before its name was known, although `[parameters]` has a rule for it.
#[cold]
pub fn of_late_name(name: &str) {
    static LATE: Warning = Warning::new("a-parameter-without-a-name");

    LATE.give(|| {
        format!(
            "`{name}` was read before its name was known, so its rule in `[parameters]` did not apply; call \
             `burn_amp::scaling::name_parameters(&model)` when the model is made or loaded"
        )
    });
}

/// Warns if a recorder rounds the state of an optimizer, F32 masters among it, to half precision.
pub fn of_recorder(saves_in: Precision) {
    static ROUNDS: Warning = Warning::new("a-recorder-that-rounds");

    if saves_in.is_low() {
        ROUNDS.give(|| {
            format!(
                "a recorder saves the state of an optimizer in {saves_in}: moments below its range become 0, and f32 \
                 masters lose the digits that they exist for; save with `FullPrecisionSettings`, as `DefaultRecorder` does"
            )
        });
    }
}

/// Warns that a loss is stored in low precision; `at` finds the line that calls its backward pass.
#[cold]
pub(crate) fn of_low_loss(stored: Precision, at: impl FnOnce() -> Option<Site>) {
    static LOW: Warning = Warning::new("a-loss-in-half-precision");

    LOW.give(|| {
        let site = at().map_or("?".to_owned(), |site| site.to_string());
        format!(
            "the loss whose backward pass is called at {site} is in {stored}: it has {} digits, and a sum of many \
             numbers overflows or stops growing; compute it in f32, with `burn_amp::full_precision(|| ..)` or a class \
             `full` of its last op",
            if stored == Precision::F16 { 3 } else { 2 }
        )
    });
}

/// Warns that Burn's `Autodiff` wraps `Amp`: only then does the backward op `op` reach a decorator without a graph.
#[cold]
pub(crate) fn of_inner_order(op: Op) {
    static OUTSIDE: Warning = Warning::new("burns-autodiff-outside-of-amp");

    OUTSIDE.give(|| {
        format!(
            "`{op}` was called from outside: burn::backend::Autodiff<Amp<_>> saves f32 operands and does not scale \
             the loss; use burn_amp::Autodiff<Amp<_>>"
        )
    });
}
