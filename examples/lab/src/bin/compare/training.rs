//! One run: its steps, and the validation after every epoch.

use std::{marker::PhantomData, time::Instant};

use anyhow::{Result, bail};
use burn::{
    module::AutodiffModule,
    prelude::*,
    tensor::backend::{AutodiffBackend, ExecutionError},
};
use burn_amp::{AmpBackend, scaling::LossScale};
use lab::{machine::Meter, precision::InPrecision, recipe::Recipe, statistics::mean};
use zoo::{Draw, Net, Visitor, ZooModel};

use crate::{
    cli::Args,
    non_finite::{Tensors, gradients, parameters},
    run::{Run, Step, Validation, WARM_UP},
};

/// Trains from the seed of the run, and fills its record.
pub struct Train<'a, P: AmpBackend> {
    pub args: &'a Args,
    pub device: &'a P::Device,
    pub meter: &'a Meter,
    pub run: &'a mut Run,
}

impl<P: AmpBackend> InPrecision<P> for Train<'_, P> {
    type Output = Result<()>;

    fn call<B, R>(self, loss_scale: Option<LossScale>) -> Self::Output
    where
        B: AutodiffBackend<Device = P::Device>,
        R: Recipe<B>,
    {
        let (args, train, recipe) = (self.args, self, PhantomData::<(B, R)>);
        let train = TrainOn {
            train,
            loss_scale,
            recipe,
        };
        args.model.visit(args.size(), train)
    }
}

/// [`Train`] on the backend and by the recipe of a precision.
struct TrainOn<'a, P: AmpBackend, B, R> {
    train: Train<'a, P>,
    loss_scale: Option<LossScale>,
    recipe: PhantomData<(B, R)>,
}

impl<P, B, R> Visitor for TrainOn<'_, P, B, R>
where
    P: AmpBackend,
    B: AutodiffBackend<Device = P::Device>,
    R: Recipe<B>,
{
    type Output = Result<()>;

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Self::Output {
        let (args, device, run) = (self.train.args, self.train.device, self.train.run);
        let meter = self.train.meter;
        let scale = self.loss_scale;
        let scale_now = || scale.map(|scale| f64::from(scale.scale()));
        let skipped_until_now = || scale.map_or(0, |scale| scale.skipped_steps());
        let in_use = meter.in_use().unwrap_or(0);

        B::seed(device, run.seed.into());
        let net = M::TrainNet::<B>::init(&model, device);
        net.num_params(); // draws the parameters, which are lazy
        let trainable = Tensors::of(&net).trainable;
        let mut net = R::store(net);
        let mut optimizer = R::optimizer();
        let start = validate::<B, M>(args, &model, &net, device, 0);
        run.validations.push(start);

        for number in 1..=args.epochs.get() * args.steps_per_epoch.get() {
            // No step of any seed sees the batch of another.
            let draw = u64::from(run.seed) << 32 | (number - 1) as u64;
            let batch = model.batch::<B>(Draw::train(args.batch_size(), draw), device);
            B::sync(device)?; // the batch is there before the clock starts
            let (loss_scale, skipped_before) = (scale_now().unwrap_or(1.0), skipped_until_now());
            let step = || {
                let start = Instant::now();
                let (net, loss) = M::step(net, &batch, &mut optimizer, args.learning_rate);
                B::sync(device)?; // the device may still be at work when the ops are queued
                Ok::<_, ExecutionError>((net, loss, start.elapsed().as_secs_f64()))
            };
            let (next, loss, seconds) = if (2..=WARM_UP).contains(&number) {
                let (peak, output) = meter.peak_during(step);
                let peak = peak.map(|peak| peak.saturating_sub(in_use));
                run.peak_memory = run.peak_memory.max(peak);
                output?
            } else {
                step()?
            };
            net = next;

            let step = Step {
                loss: loss.into_scalar().elem(),
                loss_scale,
                skipped: skipped_until_now() > skipped_before,
                seconds,
            };
            let skip = step.skipped.then(|| scale?.last_skip()).flatten();
            let gradients = skip.and_then(|skip| gradients(&skip, &trainable));
            let parameters = parameters(&net.valid());
            let loss = (!step.loss.is_finite()).then(|| "the loss".to_owned());
            let places = [loss, gradients, parameters.clone()].into_iter().flatten();
            let places = places.collect::<Vec<_>>().join("; ");
            if !places.is_empty() && run.non_finite.is_none() {
                let when = format!("in step {number} at a loss scale of {loss_scale}");
                run.non_finite = Some(format!("first non-finite {when}: {places}"));
            }
            run.steps.push(step);
            run.final_loss_scale = scale_now();
            if let Some(parameters) = parameters {
                bail!("non-finite {parameters}");
            }
            if number.is_multiple_of(args.steps_per_epoch.get()) {
                let validation = validate::<B, M>(args, &model, &net, device, number);
                let (name, loss) = (run.name(), validation.loss);
                println!("{name} step {number}: validation loss {loss:.4}");
                run.validations.push(validation);
            }
        }
        Ok(())
    }
}

/// Validates on the same items in every run, in the precision that the model is trained in.
fn validate<B: AutodiffBackend, M: ZooModel>(
    args: &Args,
    model: &M,
    net: &M::TrainNet<B>,
    device: &B::Device,
    step: usize,
) -> Validation {
    let (net, items) = (net.valid(), args.batch_size());
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    for index in 0..args.validation_items.get().div_ceil(items) as u64 {
        let batch = model.batch::<B::InnerBackend>(Draw::valid(items, index), device);
        losses.push(net.loss(&batch).into_scalar().elem());
        let accuracy = net.accuracy(&batch).map(Tensor::into_scalar);
        accuracies.extend(accuracy.map(|accuracy| accuracy.elem::<f64>()));
    }
    Validation {
        step,
        loss: mean(&losses).expect("there is an item to validate on"),
        accuracy: mean(&accuracies),
    }
}
