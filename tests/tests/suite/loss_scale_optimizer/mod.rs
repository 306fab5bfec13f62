//! `LossScaleOptimizer`, and `HoldOnSkip`, the scheduler that does not advance after a skipped step.

mod learner;

use std::path::Path;

use burn::{
    data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher},
    lr_scheduler::{
        LrScheduler,
        linear::{LinearLrScheduler, LinearLrSchedulerConfig},
    },
    optim::MultiGradientsParams,
    record::DefaultRecorder,
    tensor::backend::DeviceOps,
    train::{
        ExecutionStrategy, InferenceStep, Learner, MultiDeviceOptim, RegressionOutput,
        SupervisedTraining, TrainOutput, TrainStep, TrainingStrategy,
        checkpoint::KeepLastNCheckpoints,
        metric::{LossMetric, Metric, MetricMetadata},
        renderer::{
            EvaluationName, EvaluationProgress, MetricState, MetricsRenderer,
            MetricsRendererEvaluation, MetricsRendererTraining, ProgressType, TrainingProgress,
        },
    },
};
use burn_amp::{
    metric::AmpMetric,
    optim::{GradientNorm, HoldOnSkip, clip, global_norm},
    scaling::LossScaleRecord,
};
use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// F16 with a loss scale under which nothing overflows by itself, and which grows soon.
fn scaled() -> Config {
    in_f16(|it| {
        it.loss_scale.rule.init = 256.0;
        it.loss_scale.rule.growth_interval = 5;
    })
}

/// A layer that is initialized at once; clones of a layer that is not would each draw their own parameters.
fn layer<B: Backend>() -> Linear<B> {
    let layer: Linear<B> = LinearConfig::new(4, 2).init(&here());
    layer.weight.val();
    layer.bias.as_ref().unwrap().val();
    layer
}

fn loss<B: Backend>(model: &Linear<B>, batch: usize) -> Tensor<B, 1> {
    let x = noise::<B>(64, &model.devices()[0])
        .slice(batch..batch + 12)
        .reshape([3, 4]);
    (model.forward(x) - 0.5).square().mean()
}

/// The parameters of a layer.
fn values<B: Backend>(layer: Linear<B>) -> Vec<f64> {
    let [weight, bias] = [
        layer.weight.val().into_data(),
        layer.bias.unwrap().val().into_data(),
    ];
    weight.iter::<f64>().chain(bias.iter::<f64>()).collect()
}

/// The gradients of a batch, which overflow on request.
fn grads<B: AutodiffBackend>(model: &Linear<B>, batch: usize, overflows: bool) -> GradientsParams {
    let factor = if overflows { f32::INFINITY } else { 1.0 };
    GradientsParams::from_grads((loss(model, batch) * factor).backward(), model)
}

#[test]
fn an_accumulated_batch_is_skipped_if_a_part_of_it_overflowed() {
    let _policy = enter_config!(scaled());
    let start = layer::<B>();
    let mut optimizer = LossScaleOptimizer::new(AdamConfig::new().init());
    let mut step = |model: &Linear<B>, overflows: [bool; 3]| {
        let mut sum = GradientsAccumulator::new();
        for (batch, overflows) in overflows.into_iter().enumerate() {
            sum.accumulate(model, grads(model, batch, overflows));
        }
        let moved = optimizer.step(0.1, model.clone(), sum.grads());
        let changed = save::<B, _>(moved) != save::<B, _>(model.clone());
        (changed, optimizer.to_record().clone())
    };
    for overflows in [
        [true, false, false],
        [false, true, false],
        [false, false, true],
    ] {
        assert!(!step(&start, overflows).0, "{overflows:?}");
    }
    // An overflow affects one effective batch (all batches that are summed for a step) and not the next one.
    assert!(step(&start, [false; 3]).0);
    assert!(!step(&start, [true; 3]).0);
}

/// If one model's loss overflows, the optimizer of the other model still steps.
#[test]
fn models_skip_by_themselves() {
    let _policy = enter_config!(scaled());
    let models = [layer::<B>(), layer::<B>()];
    let mut optimizers = [(); 2].map(|()| LossScaleOptimizer::new(SgdConfig::new().init()));
    let grads = [grads(&models[0], 0, true), grads(&models[1], 0, false)];
    let stepped =
        grads
            .into_iter()
            .zip(&models)
            .zip(&mut optimizers)
            .map(|((grads, model), optimizer)| {
                let moved = optimizer.step(0.1, model.clone(), grads);
                save::<B, _>(moved) != save::<B, _>(model.clone())
            });
    assert_eq!(stepped.collect::<Vec<_>>(), [false, true]);
}

/// As in burn-train's multi-device strategies, forks compute the gradients and the main model steps.
#[test]
fn an_overflow_of_a_fork_skips_the_step_of_the_model() {
    let _policy = enter_config!(scaled());
    let device = Default::default();
    let model = layer::<B>();
    for overflowing in [None, Some(0), Some(1)] {
        let mut optimizer = LossScaleOptimizer::new(SgdConfig::new().init())
            .with_clipping(Clipping::GlobalNorm(1e3));
        let forked = |rank| {
            let fork = model.clone().fork(&device);
            grads(&fork, rank, overflowing == Some(rank))
        };
        let parts = [
            std::thread::scope(|scope| scope.spawn(|| forked(0)).join().unwrap()),
            forked(1),
        ];
        let multi = MultiGradientsParams {
            grads: parts
                .into_iter()
                .map(|grads| (grads, device.id()))
                .collect(),
        };
        let moved = optimizer.step_multi(0.1, model.clone(), multi);
        let changed = save::<B, _>(moved) != save::<B, _>(model.clone());
        assert_eq!(changed, overflowing.is_none(), "{overflowing:?}");
    }
}

#[test]
fn gradients_are_clipped_together_and_their_norm_is_known() {
    fn clips() {
        let model = layer::<B>();
        // The first scales may overflow; after some steps the scale is low enough.
        let computed = loop {
            let grads = grads(&model, 0, false);
            if grads.len() == 2 {
                break grads;
            }
        };
        // Every step below gets these gradients: a second backward pass may have another scale, and so other roundings.
        let bias = model.bias.as_ref().unwrap();
        let grads = || {
            let mut copy = GradientsParams::new();
            copy.register(
                model.weight.id,
                computed.get::<Amp, 2>(model.weight.id).unwrap(),
            );
            copy.register(bias.id, computed.get::<Amp, 1>(bias.id).unwrap());
            copy
        };
        let step = |clipping: Option<Clipping>| {
            let norm = GradientNorm::default();
            assert_eq!(norm.value(), None);
            let mut optimizer =
                LossScaleOptimizer::new(SgdConfig::new().init()).with_gradient_norm(&norm);
            if let Some(clipping) = clipping {
                optimizer = optimizer.with_clipping(clipping);
            }
            // The overflows of the first scales are consumed by a step without gradients.
            let _ = optimizer.step(0.0, model.clone(), GradientsParams::new());
            let moved = optimizer.step(1.0, model.clone(), grads());
            (values(moved), norm.value().unwrap())
        };
        // The same step by hand, with Burn's own optimizer.
        let by_hand = |clipping: Option<Clipping>| {
            let mut grads = grads();
            let norm = global_norm::<B, _>(&grads, &model).unwrap().into_scalar();
            if let Some(clipping) = clipping {
                clip::<B, _>(&mut grads, &model, clipping);
            }
            let mut sgd = SgdConfig::new().init::<B, Linear<B>>();
            (values(sgd.step(1.0, model.clone(), grads)), f64::from(norm))
        };
        // A kernel adds the 10 squares in another order than Burn's sums: at most 6 ε more or less in the norm, and one
        // rounding each in the factor, the product and the step. Parameters and clipped gradients are below 1.
        let tolerance = 9.0 * f64::from(f32::EPSILON);
        let mut results = Vec::new();
        for clipping in [
            None,
            Some(Clipping::GlobalNorm(1e-2)),
            Some(Clipping::Value(1e-2)),
        ] {
            let found = step(clipping);
            let expected = by_hand(clipping);
            assert!(found.1 > 1e-2);
            assert!(
                (found.1 - expected.1).abs() <= tolerance * expected.1,
                "{clipping:?}: {} and {}",
                found.1,
                expected.1
            );
            for (found, expected) in found.0.iter().zip(&expected.0) {
                assert!(
                    (found - expected).abs() <= tolerance * expected.abs().max(1.0),
                    "{clipping:?}: {found} and {expected}"
                );
            }
            results.push(found.0);
        }
        assert!(results[0] != results[1] && results[1] != results[2]);

        // The norm, computed by hand.
        let grads = grads();
        let squares = |data: TensorData| data.iter::<f64>().map(|x| x * x).sum::<f64>();
        let weight = grads.get::<Amp, 2>(model.weight.id).unwrap();
        let bias = grads.get::<Amp, 1>(bias.id).unwrap();
        let norm = (squares(weight.into_data()) + squares(bias.into_data())).sqrt();
        assert!((step(None).1 - norm).abs() < 1e-6 * norm);
    }
    for_each_low_policy!(clips);
}

#[test]
fn a_scheduler_holds_on_a_skipped_step() {
    let _policy = enter_config!(scaled());
    let model = layer::<B>();
    let plain = || LinearLrSchedulerConfig::new(1.0, 0.0, 8).init().unwrap();
    let mut expected = plain();
    let mut scheduler = HoldOnSkip::new(plain(), loss_scale::<B>(&here()));
    let mut lr = 0.0;
    for (step, overflows) in [false, true, true, false, true, false, false]
        .into_iter()
        .enumerate()
    {
        let after_skip = step > 0 && [1, 2, 4].contains(&(step - 1));
        if !after_skip {
            lr = expected.step();
        }
        assert_eq!(scheduler.step(), lr, "step {step}");
        grads(&model, 0, overflows);

        // The scheduler is saved and loaded at every step, and continues.
        let record = scheduler.to_record::<B>();
        let fresh = HoldOnSkip::new(plain(), loss_scale::<B>(&here()));
        scheduler = fresh.load_record::<B>(record);
    }
}
