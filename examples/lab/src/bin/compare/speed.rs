//! Why a precision may not be faster: the device, the shapes of the model, the size of a step.

use std::time::Instant;

use burn::{
    backend::Autodiff,
    module::Module,
    tensor::{
        DType,
        backend::{Backend, ExecutionError},
    },
};
use burn_backend::DTypeUsage;
use lab::{machine::Machine, precision::Precision, statistics::percentile, table::percent};
use zoo::{Draw, Entry, Net, Visitor, ZooModel};

use crate::{run::WARM_UP, shapes::Shapes};

/// How a device computes in a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// By widening to F32.
    Emulated,
    /// As in F32, without units of its own for matrix products.
    Plain,
    /// On units for matrix products.
    Accelerated,
}

impl Hardware {
    pub fn of<P: Backend>(machine: &Machine, device: &P::Device, precision: Precision) -> Self {
        let dtype = match precision {
            Precision::F32 => return Self::Plain,
            Precision::AmpBf16 => DType::BF16,
            _ => DType::F16,
        };
        if machine.emulates_half {
            Self::Emulated
        } else if P::dtype_usage(device, dtype).contains(DTypeUsage::Accelerated) {
            Self::Accelerated
        } else {
            Self::Plain
        }
    }
}

/// A model, as far as the verdict depends on it.
#[derive(Clone, Debug)]
pub struct Model {
    pub shapes: Shapes,
    /// Whether a lower loss means a better model.
    pub loss_ranks: bool,
    /// The share of a step in F32 that does not grow with the batch, 0 to 1.
    pub fixed_share: Option<f64>,
    /// F32's products may run on tensor cores, too.
    pub rounds_f32: bool,
}

impl Model {
    /// Why a run is not faster than F32, the best reason first; there is always one. `casts` are those of a step.
    pub fn why_not_faster(&self, hardware: Hardware, casts: Option<u64>) -> Vec<String> {
        match hardware {
            Hardware::Emulated => return vec![EMULATED.to_owned()],
            Hardware::Plain => return vec![PLAIN.to_owned()],
            Hardware::Accelerated => {}
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
        if self.rounds_f32 {
            reasons.push("F32's products may run on tensor cores here, too, in TF32.".to_owned());
        }
        reasons
    }
}

const EMULATED: &str = "The CPU emulates half precision: this time says nothing about a GPU.";
const PLAIN: &str = "The device has no units for matrix products in this precision.";

/// The share of a step that takes `full` seconds on a batch and `half` on half of it that a batch of nothing would take.
pub fn fixed_share(full: f64, half: f64) -> f64 {
    ((2.0 * half - full) / full).clamp(0.0, 1.0)
}

/// Times steps of plain Burn on one batch.
///
/// They also warm up the process: what it makes only once, such as threads, does not count as time of the first run.
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
    use crate::shapes::Layer;

    #[test]
    fn the_fixed_share_is_what_halving_the_batch_does_not_halve() {
        for (half, share) in [(5.0, 0.0), (10.0, 1.0), (7.5, 0.5), (4.0, 0.0), (12.0, 1.0)] {
            assert_eq!(fixed_share(10.0, half), share);
        }
    }

    #[test]
    fn reasons_come_from_the_device_and_the_model() {
        let model = |matrix_share, odd_share, fixed_share, rounds_f32| Model {
            shapes: Shapes {
                parameters: 100,
                matrix_share,
                odd_share,
                odd: vec![Layer {
                    name: "head.weight".to_owned(),
                    shape: vec![768, 50257],
                    is_matrix: true,
                }],
            },
            loss_ranks: true,
            fixed_share: Some(fixed_share),
            rounds_f32,
        };
        let large = || model(0.9, 0.0, 0.1, false);
        let fast = Hardware::Accelerated;
        for (model, hardware, expected) in [
            (large(), Hardware::Emulated, EMULATED),
            (large(), Hardware::Plain, PLAIN),
            (
                large(),
                fast,
                "the optimizer and 7 casts per step take the time.",
            ),
            (model(0.9, 0.0, 0.7, false), fast, "about 70 % of a step"),
            (
                model(0.9, 0.24, 0.1, false),
                fast,
                "24 % of the matrices' parameters: head.weight [768, 50257]",
            ),
            (model(0.3, 0.0, 0.1, false), fast, "30 % of the parameters"),
            (model(0.9, 0.0, 0.1, true), fast, "in TF32"),
        ] {
            let reasons = model.why_not_faster(hardware, Some(7)).join(" ");
            assert!(reasons.contains(expected), "{expected}: {reasons}");
        }
    }
}
