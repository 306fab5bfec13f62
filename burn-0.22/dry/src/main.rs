//! Training steps of a model of the zoo on CUDA under Fusion: what a step asks of the driver, with Burn 0.22.
//!
//! The command line, the marks and the output are those of `dry` in `examples/lab`, so that `cargo xtask cuda dry --program` counts them
//! beside those of Burn 0.21.

#[path = "../../../examples/lab/src/bin/dry/args.rs"]
mod args;
#[path = "../../../examples/lab/src/choice.rs"]
#[allow(dead_code, reason = "the lab has more programs")]
mod choice;
#[path = "../../../examples/lab/src/bin/dry/marks.rs"]
mod marks;
mod precision;

use anyhow::{Context, Result, ensure};
use burn::{
    module::Module,
    optim::{GradientsParams, LearningRate},
    tensor::Device,
};
use burn_amp::optim::{AmpModuleOptimizer, AmpOptimizer};
use clap::Parser;
use zoo::{Draw, Entry, LEARNING_RATE, Net, Steps, Visitor, ZooModel, adamw};

use crate::{args::Args, marks::{take_marked, take_profiled}};

/// The seed of the weights and of the batch.
const SEED: u64 = 0;

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.fusion, "this program trains under Fusion: --fusion");
    let device = Device::cuda(0).autodiff();
    burn_amp::configure(&device, args.precision.config())?;
    let parameters = args.model.visit(
        args.size,
        Train {
            args: &args,
            device,
        },
    )?;
    let outcome = serde_json::json!({ "parameters": parameters, "peak_bytes": null });
    println!("{outcome}");
    Ok(())
}

/// burn-amp's optimizer, for the zoo.
struct Together(AmpModuleOptimizer);

impl Steps for Together {
    fn step<M: Module>(&mut self, lr: LearningRate, module: M, gradients: GradientsParams) -> M {
        self.0.step(lr, module, gradients)
    }
}

/// A visitor that trains a model and returns the number of its parameters.
struct Train<'a> {
    args: &'a Args,
    device: Device,
}

impl Visitor for Train<'_> {
    type Output = Result<usize>;

    fn visit<M: ZooModel>(self, _: &'static Entry, model: M) -> Result<usize> {
        let Self { args, device } = self;
        device.seed(SEED);
        let draw = Draw::train(args.model.batch_size(args.size), SEED);
        let batch = model.batch(draw, &device);
        let net = M::TrainNet::init(&model, &device);
        let parameters = net.num_params(); // draws the parameters, which are lazy
        let mut net = Some(net);
        let mut optimizer = Together(AmpOptimizer::new(adamw()).init()?);
        let mut losses = Vec::new(); // as a program that logs them keeps them
        let mut steps = |count: usize| -> Result<()> {
            for _ in 0..count {
                let before = net.take().context("a step failed before")?;
                let (after, loss) = M::step(before, &batch, &mut optimizer, LEARNING_RATE);
                net = Some(after);
                losses.push(loss);
            }
            Ok(device.sync()?)
        };

        for _ in 0..args.warmup {
            steps(1)?;
        }
        take_marked(|| steps(1))?;
        if let Some(control) = &args.control {
            take_profiled(control, || steps(args.profiled))?;
        }
        Ok(parameters)
    }
}
