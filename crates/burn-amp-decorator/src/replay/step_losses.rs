//! A whole step, computed with its products in eight bits and fewer.

use burn_amp_core::{
    Compute, Precision, Preset,
    formats::Simulate,
    overflow::Locate,
    replay::{Step, StepLosses, decibels},
};
use burn_backend::{TensorData, tensor::Device};

use super::{
    run::{self, Ran, ReplayError},
    unit,
};
use crate::{distributed::Trainable, policy::Context};

/// Runs the whole step in low precision and with each recipe simulated, beside the gradients that it has in F32; `None` on a
/// device without low precision.
pub(super) fn step_losses<B: Trainable>(
    step: &Step,
    device: &Device<B>,
    in_f32: &Ran<TensorData>,
) -> Result<Option<StepLosses>, ReplayError> {
    let exact = gradients(in_f32);
    let context = |simulate, compute| {
        let mut config = run::config(step, None, Locate::Off)?;
        config.simulate = simulate;
        if config.preset == Preset::O0 {
            config.preset = Preset::O1;
        }
        if !matches!(config.compute, Compute::Bf16 | Compute::F16) {
            config.compute = compute;
        }
        Context::<B>::apart(config, device)
    };
    let run = |context| {
        let ran = run::ran(step, device, None, context, unit::read::<B>, |_| ())?;
        let scale = f64::from(step.scale.unwrap_or(1.0));
        let gradients: Vec<_> = gradients(&ran).iter().map(|x| x / scale).collect();
        let found = decibels(&gradients, &exact);
        Ok::<_, ReplayError>(found.filter(|found| *found > f64::NEG_INFINITY))
    };
    let (mut dtype, mut recipes) = (Precision::F32, Vec::new());
    let simulated = Simulate::ALL.into_iter().filter(|it| it.recipe().is_some());
    for simulate in simulated {
        let context = context(simulate, Compute::Auto)?;
        dtype = context.policy.compute();
        if !dtype.is_low() {
            return Ok(None);
        }
        recipes.push(run(context)?);
    }
    let compute = match dtype {
        Precision::F16 => Compute::F16,
        _ => Compute::Bf16,
    };
    let low = run(context(Simulate::Off, compute)?)?;
    Ok(Some(StepLosses {
        dtype,
        low,
        recipes,
    }))
}

/// The gradients of all parameters, one behind the other.
fn gradients(ran: &Ran<TensorData>) -> Vec<f64> {
    let gradients = ran.gradients.iter().flatten();
    let values = gradients.flat_map(|data| data.iter::<f64>().collect::<Vec<_>>());
    values.collect()
}
