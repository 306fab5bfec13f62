//! Reasons why a precision may not be faster: the device, the shapes of the model, the size of a step.

use std::time::Instant;

use burn::{
    backend::Autodiff,
    module::Module,
    tensor::backend::{Backend, ExecutionError},
};
use lab::{machine::Machine, statistics::percentile, table::percent};
use zoo::{Draw, Entry, Net, Visitor, ZooModel};

use crate::{parameters::Shapes, run::WARM_UP};

/// The properties of a model on a machine that the verdict depends on.
pub struct Model<'a> {
    pub machine: &'a Machine,
    pub shapes: Shapes,
    /// Whether a lower loss means a better model.
    pub loss_ranks: bool,
    /// The share of a step in F32 that does not grow with the batch, 0 to 1.
    pub fixed_share: Option<f64>,
}

const EMULATED: &str = "The CPU emulates half precision: this time says nothing about a GPU.";
const PLAIN: &str = "The device has no units for matrix products in this precision.";

impl Model<'_> {
    /// Returns why a run is not faster than F32, the best reason first; there is always one.
    ///
    /// `casts` are those of a step; `accelerated` says whether the device has units for the precision.
    pub fn why_not_faster(&self, accelerated: bool, casts: Option<u64>) -> Vec<String> {
        if self.machine.emulates_half {
            return vec![EMULATED.to_owned()];
        }
        if !accelerated {
            return vec![PLAIN.to_owned()];
        }
        let (shapes, mut reasons) = (&self.shapes, Vec::new());
        if let Some(share) = self.fixed_share.filter(|share| *share >= 0.5) {
            let share = percent(share);
            reasons.push(format!(
                "Too small: about {share} of a step in f32 does not grow with the batch (launches, the optimizer)."
            ));
        }
        if shapes.odd_share >= 0.1 {
            let layers: Vec<String> = shapes.odd.iter().take(3).map(ToString::to_string).collect();
            let (share, layers) = (percent(shapes.odd_share), layers.join(", "));
            reasons.push(format!(
                "Dimensions that are not multiples of 8, in {share} of the matrices' parameters: {layers}."
            ));
        }
        if shapes.matrix_share < 0.5 {
            let share = percent(shapes.matrix_share);
            reasons.push(format!(
                "Not matmul-bound: {share} of the parameters are in matrices."
            ));
        }
        if reasons.is_empty() {
            let casts = casts.map_or(String::new(), |casts| {
                format!(" and {casts} casts per step")
            });
            reasons.push(format!(
                "It is large enough and its dimensions are multiples of 8, so it is probably not matmul-bound: norms, \
                 softmax, the optimizer{casts} take the time."
            ));
        }
        if self.machine.rounds_f32 {
            reasons.push("F32's products may run on tensor cores here, too, in TF32.".to_owned());
        }
        reasons
    }
}

/// Returns the share of a step that does not depend on the batch size, for a step that takes `full` seconds on a batch
/// and `half` seconds on half of it.
pub fn fixed_share(full: f64, half: f64) -> f64 {
    ((2.0 * half - full) / full).clamp(0.0, 1.0)
}

/// Times steps of plain Burn on one batch.
///
/// They also warm up the process, so that one-time costs, such as starting threads, are not charged to the first run.
pub struct TimeSteps<'a, P: Backend> {
    pub items: usize,
    pub device: &'a P::Device,
}

impl<P: Backend> Visitor for TimeSteps<'_, P> {
    /// Seconds per step, or the failure of the device.
    type Output = Result<Option<f64>, ExecutionError>;

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Self::Output {
        const STEPS: usize = 11;

        let mut net = M::TrainNet::<Autodiff<P>>::init(&model, self.device);
        net.num_params(); // draws the parameters, which are lazy
        let mut optimizer = zoo::adamw().init();
        let batch = model.batch::<Autodiff<P>>(Draw::train(self.items, 0), self.device);
        P::sync(self.device)?;
        let mut times = Vec::new();
        for _ in 0..WARM_UP + STEPS {
            let start = Instant::now();
            (net, _) = M::step(net, &batch, &mut optimizer, zoo::LEARNING_RATE);
            P::sync(self.device)?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(percentile(&times[WARM_UP..], 50.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameter;

    #[test]
    fn the_fixed_share_is_what_halving_the_batch_does_not_halve() {
        let shares = [5.0, 10.0, 7.5, 4.0, 12.0].map(|half| fixed_share(10.0, half));
        assert_eq!(shares, [0.0, 1.0, 0.5, 0.0, 1.0]);
    }

    #[test]
    fn reasons_come_from_the_device_and_the_model() {
        let reasons = |machine: &Machine, matrix_share, odd_share, fixed_share, accelerated| {
            let head = Parameter {
                name: "head.weight".to_owned(),
                shape: vec![768, 50257],
                is_trainable: true,
                is_matrix: true,
            };
            let model = Model {
                machine,
                shapes: Shapes {
                    parameters: 100,
                    matrix_share,
                    odd_share,
                    odd: vec![head],
                },
                loss_ranks: true,
                fixed_share: Some(fixed_share),
            };
            model.why_not_faster(accelerated, Some(7)).join(" ")
        };
        let gpu = &Machine {
            emulates_half: false,
            rounds_f32: true,
            ..Machine::flex()
        };
        assert_eq!(reasons(&Machine::flex(), 0.9, 0.0, 0.1, true), EMULATED);
        assert_eq!(reasons(gpu, 0.9, 0.0, 0.1, false), PLAIN);
        for (found, expected) in [
            (reasons(gpu, 0.9, 0.0, 0.1, true), "and 7 casts per step"),
            (reasons(gpu, 0.9, 0.0, 0.7, true), "about 70 % of a step"),
            (reasons(gpu, 0.9, 0.24, 0.1, true), "24 % of the matrices'"),
            (
                reasons(gpu, 0.9, 0.24, 0.1, true),
                "head.weight [768, 50257]",
            ),
            (reasons(gpu, 0.3, 0.0, 0.1, true), "30 % of the parameters"),
        ] {
            assert!(found.contains(expected), "{expected}: {found}");
            assert!(found.ends_with("in TF32."), "{found}");
        }
    }
}
