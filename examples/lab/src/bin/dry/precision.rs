//! The precisions of a dry run: plain Burn, and Amp by a policy that is chosen on the command line.
//!
//! A process has one policy, so one type of policy source does for all and models are instantiated twice only.

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
    optim::AmpOptimizer,
};
use clap::ValueEnum;
use lab::{
    machine::Machine,
    recipe::{Recipe, StoredInF32},
};

use crate::{Args, Outcome, training::Train};

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
        Some(match self {
            Self::F32 => return None,
            Self::Bf16 => computing_in(Compute::Bf16),
            Self::F16 => computing_in(Compute::F16),
            Self::F16Deferred => {
                let mut config = computing_in(Compute::F16);
                config.loss_scale.sync = false;
                config
            }
        })
    }
}

struct Chosen;

impl ConfigSource for Chosen {
    fn config() -> Result<Config, ConfigError> {
        Ok(Config::default()) // replaced by `configure` before its first use
    }
}

/// F32 parameters under Amp, updated by the optimizer that it offers.
struct Mixed;

impl<A> Recipe<A> for Mixed
where
    A: Amped + AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn store<M: Module<A>>(net: M) -> M {
        net
    }

    fn optimizer<M: AutodiffModule<A>>() -> impl Optimizer<M, A> {
        AmpOptimizer::new(zoo::adamw()).init()
    }
}
