//! The precisions of a dry run: plain Burn, and Amp by a policy that is chosen on the command line.
//!
//! A process has one policy, so one type of policy source does for all and models are instantiated twice only.

use std::sync::OnceLock;

use anyhow::Result;
use burn::{
    backend::Autodiff,
    module::{AutodiffModule, Module},
    optim::Optimizer,
    tensor::backend::AutodiffBackend,
};
use burn_amp::{
    Amp, AmpBackend,
    config::{Compute, Config, ConfigError, ConfigSource, Preset},
    extend::{Amped, NoGraph},
    optim::{AmpOptimizer, Masters, Moments},
};
use clap::ValueEnum;
use lab::{
    machine::Machine,
    recipe::{Recipe, StoredInF32},
};

use crate::{Outcome, args::Args, training::Train};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// Plain Burn
    F32,
    /// Amp in BF16
    Bf16,
    /// Amp in F16, with a dynamic loss scale
    F16,
    /// The same with `loss_scale.sync = false`: no step waits for the device
    F16Deferred,
    /// Parameters in BF16 with masters in 2 bytes, moments in blocks of 8 bits
    #[value(name = "o2-split-8")]
    Split8,
    /// Parameters in BF16 without masters, moments in BF16, both rounded stochastically
    #[value(name = "o2-stochastic")]
    Stochastic,
}

/// Takes the steps on the backend `P`.
///
/// # Errors
///
/// Returns an error if the policy is not accepted, or something on the device failed.
pub fn run<P: AmpBackend>(args: &Args, machine: &Machine) -> Result<Outcome> {
    let Some(config) = args.precision.config() else {
        return steps::<Autodiff<P>, StoredInF32>(args, machine);
    };
    burn_amp::configure::<Amp<P, Chosen>>(&P::Device::default(), config)?;
    FORMATS.get_or_init(|| args.precision.formats());
    steps::<burn_amp::Autodiff<Amp<P, Chosen>>, Mixed>(args, machine)
}

fn steps<B: AutodiffBackend, R: Recipe<B>>(args: &Args, machine: &Machine) -> Result<Outcome> {
    args.model
        .visit(args.size, Train::<B, R>::new(args, machine))
}

impl Precision {
    /// The policy; `None` for plain Burn.
    fn config(self) -> Option<Config> {
        let computing_in = |compute| Config {
            preset: Preset::O1,
            compute,
            ..Config::default()
        };
        let stored_in_bf16 = || Config {
            preset: Preset::O2,
            ..computing_in(Compute::Bf16)
        };
        Some(match self {
            Self::F32 => return None,
            Self::Bf16 => computing_in(Compute::Bf16),
            Self::F16 => computing_in(Compute::F16),
            Self::F16Deferred => {
                let mut config = computing_in(Compute::F16);
                config.loss_scale.sync = false;
                config
            }
            Self::Split8 | Self::Stochastic => stored_in_bf16(),
        })
    }

    /// The formats in which the optimizer keeps masters and moments.
    fn formats(self) -> (Masters, Moments) {
        match self {
            Self::Split8 => (Masters::Split, Moments::Bits8),
            Self::Stochastic => (Masters::Stochastic, Moments::Bf16),
            Self::F32 | Self::Bf16 | Self::F16 | Self::F16Deferred => Default::default(),
        }
    }
}

/// The optimizer's formats in this process: one type of recipe for all of them keeps the program small.
static FORMATS: OnceLock<(Masters, Moments)> = OnceLock::new();

struct Chosen;

impl ConfigSource for Chosen {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config::default()) // replaced by `configure` before its first use
    }
}

/// Parameters as the policy stores them, updated by the optimizer that Amp offers.
struct Mixed;

impl<A> Recipe<A> for Mixed
where
    A: Amped + AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn store<M: Module<A>>(net: M) -> M {
        burn_amp::cast_params(net)
    }

    fn optimizer<M: AutodiffModule<A>>() -> impl Optimizer<M, A> {
        let (masters, moments) = FORMATS.get().copied().unwrap_or_default();
        AmpOptimizer::new(zoo::adamw())
            .with_masters(masters)
            .with_moments(moments)
            .init()
    }
}
