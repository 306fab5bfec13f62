//! One run: steps, the validation after every epoch, and what burn-amp tells of them.

use std::{marker::PhantomData, sync::Arc, time::Instant};

use burn::{
    module::AutodiffModule,
    prelude::*,
    tensor::backend::{AutodiffBackend, ExecutionError},
};
use burn_amp::{CastCounter, LossScale};
use zoo::{Net, Visitor, ZooModel};

use crate::{
    batches,
    layers::{Layer, layers},
    memory::Meter,
    non_finite::{Event, Place},
    plan::Plan,
    precision::InPrecision,
    run::{Outcome, Record, Step, Validation, WARM_UP},
    statistics,
};

/// Trains from a seed, and fills the record as far as it gets.
pub struct Train<'a, P: Backend> {
    pub plan: &'a Plan,
    pub device: &'a P::Device,
    pub meter: &'a Meter,
    pub seed: u32,
    pub record: &'a mut Record,
    /// Called after every validation.
    pub on_epoch: &'a dyn Fn(&Record),
}

impl<P: Backend> InPrecision<P> for Train<'_, P> {
    type Output = Outcome;

    fn call<B>(self, loss_scale: Option<LossScale>) -> Outcome
    where
        B: AutodiffBackend<Device = P::Device>,
    {
        let first_scale = loss_scale.map(|scale| (scale, scale.record()));
        let plan = self.plan;
        let outcome = bench_machine::panics::caught(|| {
            plan.visit(TrainOn::<P, B> {
                train: self,
                loss_scale,
                backend: PhantomData,
            })
        });
        // The loss scale lives as long as the process; a run after this one starts from the first one again.
        if let Some((scale, first)) = first_scale {
            scale.load(first);
        }
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => Outcome::Failed(format!("device: {error}")),
            Err(panic) => Outcome::Failed(panic),
        }
    }
}

/// [`Train`] on the backend of a precision.
struct TrainOn<'a, P: Backend, B> {
    train: Train<'a, P>,
    loss_scale: Option<LossScale>,
    backend: PhantomData<B>,
}

impl<P, B> Visitor for TrainOn<'_, P, B>
where
    P: Backend,
    B: AutodiffBackend<Device = P::Device>,
{
    type Output = Result<Outcome, ExecutionError>;

    fn visit<M: ZooModel>(self, _: &'static zoo::Entry, model: M) -> Self::Output {
        let Train {
            plan,
            device,
            meter,
            seed,
            record,
            on_epoch,
        } = self.train;
        let watch = Watch(self.loss_scale);
        let in_use = meter.in_use().unwrap_or(0);

        B::seed(device, seed.into());
        let mut net = M::TrainNet::<B>::init(&model, device);
        net.num_params(); // draws the parameters, which are lazy
        let layers = layers(&net);
        let mut optimizer = zoo::adamw().init();
        record
            .validations
            .push(validate::<B, M>(plan, &model, &net, device, 0));

        for index in 0..plan.epochs * plan.steps_per_epoch {
            let draw = batches::train(plan.batch_size, seed, index);
            let batch = model.batch::<B>(draw, device);
            B::sync(device)?; // the batch is there before the clock starts
            let (loss_scale, skipped_before) = (watch.loss_scale(), watch.skipped_steps());
            let step = || {
                let start = Instant::now();
                let (net, loss) = M::step(net, &batch, &mut optimizer, plan.learning_rate);
                B::sync(device)?; // the device may still be at work when the ops are queued
                Ok::<_, ExecutionError>((net, loss, start.elapsed().as_secs_f64()))
            };
            let (next, loss, seconds) = match index {
                0 => {
                    let (casts, output) = watch.casts_during(step);
                    record.casts_per_step = casts;
                    output
                }
                1..WARM_UP => {
                    let (peak, output) = meter.peak_during(step);
                    let peak = peak.map(|peak| peak.saturating_sub(in_use));
                    record.peak_memory = record.peak_memory.max(peak);
                    output
                }
                _ => step(),
            }?;
            net = next;

            let step = Step {
                loss: loss.into_scalar().elem(),
                loss_scale,
                skipped: watch.skipped_steps() > skipped_before,
                seconds,
            };
            let loss = (!step.loss.is_finite()).then_some(Place::Loss);
            let gradients = watch.overflowed(step.skipped, &layers);
            let parameters = Place::of_parameters(&net.valid());
            let is_lost = parameters.is_some();
            record.steps.push(step);
            record.final_loss_scale = watch.final_loss_scale();
            for place in [loss, gradients, parameters].into_iter().flatten() {
                record.events.push(Event {
                    step: index + 1,
                    loss_scale,
                    place,
                });
            }
            if is_lost {
                return Ok(Outcome::NonFinite);
            }
            if (index + 1).is_multiple_of(plan.steps_per_epoch) {
                let validation = validate::<B, M>(plan, &model, &net, device, index + 1);
                record.validations.push(validation);
                on_epoch(record);
            }
        }
        Ok(Outcome::Finished)
    }
}

/// In the precision that the model is trained in.
fn validate<B: AutodiffBackend, M: ZooModel>(
    plan: &Plan,
    model: &M,
    net: &M::TrainNet<B>,
    device: &B::Device,
    step: usize,
) -> Validation {
    let net = net.valid();
    let (mut losses, mut accuracies) = (Vec::new(), Vec::new());
    for draw in batches::validation(plan.validation_items, plan.batch_size) {
        let batch = model.batch::<B::InnerBackend>(draw, device);
        losses.push(net.loss(&batch).into_scalar().elem());
        let accuracy = net.accuracy(&batch);
        accuracies.extend(accuracy.map(|accuracy| accuracy.into_scalar().elem::<f64>()));
    }
    Validation {
        step,
        loss: statistics::mean(losses.into_iter()).expect("there is an item to validate on"),
        accuracy: statistics::mean(accuracies.into_iter()),
    }
}

/// What burn-amp tells; nothing in plain Burn.
struct Watch(Option<LossScale>);

impl Watch {
    fn loss_scale(&self) -> f64 {
        self.final_loss_scale().unwrap_or(1.0)
    }

    fn final_loss_scale(&self) -> Option<f64> {
        self.0.map(|scale| scale.scale().into())
    }

    fn skipped_steps(&self) -> u64 {
        self.0.map_or(0, |scale| scale.skipped_steps())
    }

    fn overflowed(&self, skipped: bool, layers: &[Layer]) -> Option<Place> {
        let skip = self.0.filter(|_| skipped)?.last_skip()?;
        Place::of_skip(&skip, layers)
    }

    fn casts_during<T>(&self, work: impl FnOnce() -> T) -> (Option<u64>, T) {
        if self.0.is_none() {
            return (None, work());
        }
        let casts = Arc::new(CastCounter::default());
        burn_amp::observe(Some(casts.clone()));
        let output = work();
        burn_amp::observe(None);
        (Some(casts.count()), output)
    }
}
