//! The steps of a dry run.

use std::marker::PhantomData;

use anyhow::{Context, Result};
use burn::{module::Module, tensor::backend::AutodiffBackend};
use lab::{machine::Machine, recipe::Recipe};
use zoo::{Draw, LEARNING_RATE, Net, Visitor, ZooModel};

use crate::{
    Outcome,
    args::Args,
    marks::{take_marked, take_profiled},
};

/// The seed of the weights and of the batch.
const SEED: u64 = 0;

/// A visitor that trains a model on the backend `B` by the recipe `R`.
pub struct Train<'a, B, R> {
    args: &'a Args,
    machine: &'a Machine,
    recipe: PhantomData<(B, R)>,
}

impl<'a, B, R> Train<'a, B, R> {
    pub fn new(args: &'a Args, machine: &'a Machine) -> Self {
        Self {
            args,
            machine,
            recipe: PhantomData,
        }
    }
}

impl<B: AutodiffBackend, R: Recipe<B>> Visitor for Train<'_, B, R> {
    type Output = Result<Outcome>;

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Result<Outcome> {
        let device = B::Device::default();
        B::seed(&device, SEED);
        let draw = Draw::train(self.args.model.batch_size(self.args.size), SEED);
        let batch = model.batch::<B>(draw, &device);
        let net = M::TrainNet::<B>::init(&model, &device);
        let parameters = net.num_params(); // draws the parameters, which are lazy
        let mut net = Some(R::store(net));
        let mut optimizer = R::optimizer();
        let mut losses = Vec::new(); // as a program that logs them keeps them
        let mut steps = |count: usize| -> Result<()> {
            for _ in 0..count {
                let before = net.take().context("a step failed before")?;
                let (after, loss) = M::step(before, &batch, &mut optimizer, LEARNING_RATE);
                net = Some(after);
                losses.push(loss);
            }
            Ok(B::sync(&device)?)
        };

        for _ in 0..self.args.warmup {
            steps(1)?;
        }
        take_marked(|| steps(1))?;
        let (peak_bytes, outcome) = self.machine.meter.peak_during(|| steps(1));
        outcome?;
        if let Some(control) = &self.args.control {
            take_profiled(control, || steps(self.args.profiled))?;
        }
        Ok(Outcome {
            parameters,
            peak_bytes,
        })
    }
}
