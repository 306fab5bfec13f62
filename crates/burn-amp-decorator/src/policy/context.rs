//! The policy, loss scale and leaves of one device.

use burn_amp_core::{
    Compute, Config, LossScaling, Policy, Precision, Preset, Saved, formats::Recipe,
    overflow::Locate,
};
use burn_amp_kernels::AmpBackend;
use burn_backend::{Backend, DType, DTypeUsage};

use super::{
    compute::compute_dtype, health::HealthWatch, locator::Locator, recorder::StepRecorder,
    source::SetupError,
};
use crate::{
    graph::Leaves,
    loss_scale::{OwnLossScale, Scaling},
    tensor::PlainFacts,
    warn,
};

/// The state that burn-amp keeps for one configuration source, backend and device.
#[derive(Debug)]
pub struct Context<B: Backend> {
    /// Decides in which dtype an op runs.
    pub policy: Policy,
    /// The configuration that is in force.
    pub config: Config,
    /// The recipe in which products with weights are simulated.
    pub(crate) recipe: Option<&'static Recipe>,
    /// Whether a graph keeps eight bits of what its nodes read.
    pub(crate) saves_eight_bits: bool,
    /// The loss scale of all threads that have none of their own.
    pub(super) shared_scaling: Scaling<B>,
    pub(crate) leaves: Leaves<B>,
    pub(crate) plain_facts: PlainFacts<B>,
    pub(crate) locator: Locator,
    pub(crate) recorder: StepRecorder<B>,
    pub(crate) health: HealthWatch,
}

impl<B: AmpBackend> Context<B> {
    /// Makes the context of a configuration on a device.
    pub(super) fn new(config: Config, device: &B::Device) -> Result<Self, SetupError> {
        config.validate()?;
        let compute = compute_dtype::<B>(&config, device)?;
        let policy = config.policy(compute);
        let scaling = Scaling::new(
            config.loss_scale.scaling(compute),
            config.loss_scale.sync,
            config.loss_scale.max_skips,
        );
        Ok(Self {
            policy,
            shared_scaling: scaling,
            leaves: Leaves::new(),
            plain_facts: PlainFacts::new(),
            locator: Locator::new(config.overflow.locate),
            recorder: StepRecorder::new(config.replay.clone()),
            health: HealthWatch::new(config.health.every),
            recipe: config.simulate.recipe(),
            saves_eight_bits: compute.is_low() && saves_eight_bits::<B>(&config, device)?,
            config,
        })
    }

    /// Makes a context that is in force for the tensors that are made with it only, and never freed.
    pub(crate) fn apart(config: Config, device: &B::Device) -> Result<&'static Self, SetupError> {
        Ok(Box::leak(Box::new(Self::new(config, device)?)))
    }

    /// Says which policy is in force, and warns if it lowers nothing on this device.
    pub(super) fn announce(&self, device: &B::Device) {
        let compute = self.policy.compute();
        if compute.is_low() {
            let recipe = self.recipe.map_or(String::new(), |recipe| {
                format!("; products with weights simulate {}", recipe.name)
            });
            let saved = match self.saves_eight_bits {
                true => "; what the backward pass reads is kept in 8 bits",
                false => "",
            };
            warn::say(&format!(
                "{} on {device:?} computes in {compute}{recipe}{saved}",
                B::name(device)
            ));
        } else if self.config.compute == Compute::Auto && self.config.preset != Preset::O0 {
            warn::of_nothing_lowered(format_args!("{device:?}"), B::runs_low_products(device));
            if let Some(recipe) = self.recipe {
                let name = recipe.name;
                warn::say(&format!(
                    "no product on {device:?} simulates {name}: none is in half precision"
                ));
            }
        }
    }
}

/// Whether a graph is to keep eight bits of what its nodes read.
///
/// # Errors
///
/// Returns an error if the device cannot store them.
fn saves_eight_bits<B: AmpBackend>(
    config: &Config,
    device: &B::Device,
) -> Result<bool, SetupError> {
    match config.saved {
        Saved::Whole => Ok(false),
        Saved::EightBits if B::dtype_usage(device, DType::I8).contains(DTypeUsage::Storage) => {
            Ok(true)
        }
        Saved::EightBits => Err(SetupError::UnsupportedSaved {
            device: format!("{} on {device:?}", B::name(device)),
        }),
    }
}

impl<B: Backend> Context<B> {
    /// Whether the calls of the current step are recorded.
    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.recorder.is_on(self.locator.is_on())
    }

    /// Returns the loss scale of this thread.
    pub(crate) fn scaling(&'static self) -> &'static Scaling<B> {
        self.shared_scaling.of_this_thread()
    }

    /// Returns the rule of the loss scale, which a thread's own one has, too.
    pub fn loss_scaling(&self) -> LossScaling {
        self.shared_scaling.host.rule
    }

    /// Whether losses are scaled, and gradients checked.
    pub(crate) fn scales_losses(&self) -> bool {
        match self.loss_scaling() {
            LossScaling::NoScale => false,
            LossScaling::Static(_) | LossScaling::Dynamic(_) => true,
        }
    }

    /// Whether parameters are asked for by their names: in reports of overflows, and by `[parameters]`.
    pub fn needs_names(&self) -> bool {
        self.scales_losses()
            || self.config.overflow.locate != Locate::Off
            || self.config.health.every > 0
            || !self.config.parameters.is_empty()
    }

    /// Gives this thread a loss scale of its own.
    pub(crate) fn own_loss_scale(&'static self) -> OwnLossScale {
        OwnLossScale::in_place_of(&self.shared_scaling)
    }

    /// Whether this thread has a loss scale of its own.
    pub(super) fn has_own_loss_scale(&'static self) -> bool {
        !std::ptr::eq(self.scaling(), &self.shared_scaling)
    }

    /// Returns the configuration with the compute dtype that was chosen for this device.
    pub(crate) fn effective(&self) -> Config {
        Config {
            compute: match self.policy.compute() {
                Precision::BF16 => Compute::Bf16,
                Precision::F16 => Compute::F16,
                Precision::F64 | Precision::F32 | Precision::Flex32 => Compute::F32,
            },
            ..self.config.clone()
        }
    }

    /// Warns, in a backward pass, if the preset stores parameters in half precision and the program does not.
    pub(crate) fn check_preset(&self) {
        let compute = self.policy.compute();
        if let (Preset::O2 | Preset::O3, true) = (self.config.preset, compute.is_low()) {
            warn::of_preset_alone(self.config.preset, compute);
        }
    }
}
