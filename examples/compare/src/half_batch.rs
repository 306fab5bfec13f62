//! How much of a step does not grow with the batch: launches of kernels, the optimizer.
//!
//! These steps are made before all runs, so that what is made once in a process, such as threads and their buffers, is
//! not counted as time or memory of the first run.

use std::time::Instant;

use burn::{
    backend::Autodiff,
    module::Module,
    tensor::backend::{Backend, ExecutionError},
};
use zoo::{Entry, Net, Visitor, ZooModel};

use crate::{batches, plan::Plan, run::WARM_UP, statistics};

/// Steps that are timed.
const STEPS: usize = 11;

/// The part of a step's time that would be left with a batch of nothing: 0 to 1.
///
/// A step that takes `full` seconds on a batch and `half` on half of it takes a + b and a + b/2.
pub fn fixed_share(full: f64, half: f64) -> f64 {
    ((2.0 * half - full) / full).clamp(0.0, 1.0)
}

/// The seconds of a step of plain Burn on half the batch; `None` where a batch has one item, though the steps are made.
///
/// # Errors
///
/// If something on the device failed.
pub fn seconds_per_step<P: Backend>(
    plan: &Plan,
    device: &P::Device,
) -> Result<Option<f64>, ExecutionError> {
    let items = (plan.batch_size / 2).max(1);
    let seconds = plan.visit(Steps::<P> {
        items,
        plan,
        device,
    })?;
    Ok(seconds.filter(|_| items < plan.batch_size))
}

struct Steps<'a, P: Backend> {
    items: usize,
    plan: &'a Plan,
    device: &'a P::Device,
}

impl<P: Backend> Visitor for Steps<'_, P> {
    type Output = Result<Option<f64>, ExecutionError>;

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Self::Output {
        let mut net = M::TrainNet::<Autodiff<P>>::init(&model, self.device);
        net.num_params(); // draws the parameters, which are lazy
        let mut optimizer = zoo::adamw().init();
        let draw = batches::train(self.items, 0, 0);
        let batch = model.batch::<Autodiff<P>>(draw, self.device);
        P::sync(self.device)?;

        let mut times = Vec::new();
        for _ in 0..WARM_UP + STEPS {
            let start = Instant::now();
            (net, _) = M::step(net, &batch, &mut optimizer, self.plan.learning_rate);
            P::sync(self.device)?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(statistics::median(times.into_iter().skip(WARM_UP)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_halving_the_batch_does_not_halve() {
        assert_eq!(fixed_share(10.0, 5.0), 0.0);
        assert_eq!(fixed_share(10.0, 10.0), 1.0);
        assert_eq!(fixed_share(10.0, 7.5), 0.5);
        // What noise makes of it is no share.
        assert_eq!(fixed_share(10.0, 4.0), 0.0);
        assert_eq!(fixed_share(10.0, 12.0), 1.0);
    }
}
