//! The optimizer, the scheduler and the metrics in a `Learner`.

use super::*;

/// A regression model for a `Learner`; the data are noise.
#[derive(Module, Debug)]
struct Regression<B: Backend> {
    linear: Linear<B>,
}

#[derive(Clone, Debug)]
struct Batch<B: Backend> {
    x: Tensor<B, 2>,
    overflows: bool,
}

impl<B: Backend> Regression<B> {
    fn output(&self, batch: Batch<B>) -> RegressionOutput<B> {
        let output = self.linear.forward(batch.x.clone());
        let targets = batch.x.slice([0..4, 0..2]) * 0.5;
        let loss = (output.clone() - targets.clone()).square().mean();
        RegressionOutput {
            loss,
            output,
            targets,
        }
    }
}

impl<B: AutodiffBackend> TrainStep for Regression<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> TrainOutput<RegressionOutput<B>> {
        let factor = if batch.overflows { f32::INFINITY } else { 1.0 };
        let output = self.output(batch);
        let grads = (output.loss.clone() * factor).backward();
        TrainOutput::new(self, grads, output)
    }
}

impl<B: Backend> InferenceStep for Regression<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> RegressionOutput<B> {
        self.output(batch)
    }
}

/// A batcher whose items are offsets into the noise. Items from 40 on make the loss overflow.
#[derive(Clone)]
struct Numbers;

const OVERFLOWS_FROM: usize = 40;

impl<B: Backend> Batcher<B, usize, Batch<B>> for Numbers {
    fn batch(&self, items: Vec<usize>, device: &B::Device) -> Batch<B> {
        let from = items[0];
        Batch {
            x: noise(64 + 16, device)
                .slice(from..from + 16)
                .reshape([4, 4]),
            overflows: from >= OVERFLOWS_FROM,
        }
    }
}

fn items<B: Backend>(
    items: impl IntoIterator<Item = usize>,
) -> std::sync::Arc<dyn DataLoader<B, Batch<B>>> {
    let dataset = burn::data::dataset::InMemDataset::new(items.into_iter().collect());
    DataLoaderBuilder::new(Numbers).batch_size(1).build(dataset)
}

/// A dashboard that shows nothing.
struct Quiet;

impl MetricsRendererTraining for Quiet {
    fn update_train(&mut self, _: MetricState) {}
    fn update_valid(&mut self, _: MetricState) {}
    fn render_train(&mut self, _: TrainingProgress, _: Vec<ProgressType>) {}
    fn render_valid(&mut self, _: TrainingProgress, _: Vec<ProgressType>) {}
}

impl MetricsRendererEvaluation for Quiet {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}
    fn render_test(&mut self, _: EvaluationProgress, _: Vec<ProgressType>) {}
}

impl MetricsRenderer for Quiet {
    fn manual_close(&mut self) {}
    fn register_metric(&mut self, _: burn::train::metric::MetricDefinition) {}
}

/// Runs a `Learner` over 12 items per epoch, some of which overflow; returns the model and the loss scale at the end.
fn learn<P: ConfigSource>(
    directory: &Path,
    record: &[u8],
    train: [usize; 12],
    epochs: usize,
    resume: Option<usize>,
    devices: usize,
) -> (Vec<u8>, LossScaleRecord) {
    let _policy = enter::<P>();
    let device = Default::default();
    let model = load::<B, _>(Regression { linear: layer() }, record.to_vec());
    let scale = loss_scale::<B>(&device);
    let norm = GradientNorm::default();
    let optimizer = LossScaleOptimizer::new(AdamConfig::new().init())
        .with_clipping(Clipping::GlobalNorm(0.5))
        .with_gradient_norm(&norm);
    let scheduler: LinearLrScheduler = LinearLrSchedulerConfig::new(0.1, 0.01, 60).init().unwrap();
    let scheduler = HoldOnSkip::new(scheduler, scale);

    let strategy =
        ExecutionStrategy::MultiDevice(vec![device; devices], MultiDeviceOptim::OptimMainDevice);
    let mut training = SupervisedTraining::new(directory, items::<B>(train), items(0..2))
        .metric_train_numeric(AmpMetric::loss_scale(scale))
        .metric_train_numeric(AmpMetric::skipped_steps(scale))
        .metric_train_numeric(AmpMetric::gradient_norm(norm))
        .metric_valid_numeric(LossMetric::new())
        .with_file_checkpointer(DefaultRecorder::new())
        .with_checkpointing_strategy(KeepLastNCheckpoints::new(10))
        .with_training_strategy(TrainingStrategy::Default(strategy))
        .with_application_logger(None)
        .renderer(Quiet)
        .num_epochs(epochs);
    if let Some(epoch) = resume {
        training = training.checkpoint(epoch);
    }
    let result = training.launch(Learner::new(model, optimizer, scheduler));
    (save::<Amp, _>(result.model), scale.record())
}

#[test]
fn the_dashboard_shows_the_exponent_of_the_scale() {
    let _policy = enter_config!(scaled());
    let progress = || burn::data::dataloader::Progress {
        items_processed: 1,
        items_total: 1,
    };
    let metadata = MetricMetadata {
        progress: progress(),
        global_progress: progress(),
        iteration: None,
        lr: None,
    };
    let scale = loss_scale::<B>(&here());
    let mut metric = AmpMetric::loss_scale(scale);
    // The search starts at 256 / 2^12.
    let entry = metric.update(&(), &metadata);
    assert_eq!(
        (entry.formatted.as_str(), entry.serialized.as_str()),
        ("2^-4", "-4")
    );
    let mut record = serde_json::to_value(scale.record()).unwrap();
    record["scale"] = 65536.0.into();
    scale.load(serde_json::from_value(record).unwrap());
    assert_eq!(metric.update(&(), &metadata).formatted, "2^16");
}

const TRAIN: [usize; 12] = [0, 5, 9, 40, 13, 20, 41, 2, 30, 8, 39, 11];

fn start() -> Vec<u8> {
    seeded::<PlainAutodiff, _>(|_| Regression::<PlainAutodiff> { linear: layer() })
}

policy!(Uninterrupted, scaled());
policy!(Interrupted, scaled());
policy!(Resumed, scaled());

#[cfg_attr(
    all(feature = "cubecl", feature = "fusion"),
    ignore = "burn-fusion 0.21.0 may lose tensors that another thread reads, as a checkpointer does"
)]
#[test]
fn a_learner_resumes_exactly_and_logs_scale_skips_and_norm() {
    let directory = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| directory.path().join(name));
    let start = start();
    let (expected, expected_scale) = learn::<Uninterrupted>(&whole, &start, TRAIN, 4, None, 1);
    assert_eq!(expected_scale.skipped_steps(), 8);
    assert_eq!(expected_scale.steps(), 48);

    learn::<Interrupted>(&parts, &start, TRAIN, 2, None, 1);
    // As after a restart: another model, and a policy source that was not yet used in this process.
    let other = seeded::<PlainAutodiff, _>(|_| Regression::<PlainAutodiff> {
        linear: LinearConfig::new(4, 2).with_bias(true).init(&here()),
    });
    let (found, found_scale) = learn::<Resumed>(&parts, &other, TRAIN, 4, Some(2), 1);
    assert!(found == expected);
    assert_eq!(found_scale, expected_scale);

    let log = |metric: &str| -> Vec<f64> {
        let file = whole
            .join("train")
            .join("epoch-1")
            .join(format!("{metric}.log"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let number = |line: &str| line.split(',').next().unwrap().parse().unwrap();
        text.lines().map(number).collect()
    };
    assert_eq!(log("Log2_loss_scale").len(), 12);
    assert_eq!(*log("Skipped_steps").last().unwrap(), 2.0);
    assert!(log("Gradient_norm").iter().skip(4).all(|norm| *norm > 0.0));
}

policy!(OneOfTwo, scaled());
policy!(NoneOfTwo, scaled());

/// Two devices (here the same device twice) take one item each per step; an overflow of either skips the whole step.
#[test]
fn a_learner_on_several_devices_skips_whole_steps() {
    let directory = tempfile::tempdir().unwrap();
    let run = |name: &str| directory.path().join(name);
    let start = start();
    // The first half of the items goes to one device, the second half to the other.
    let overflowing = [0, 5, 40, 9, 13, 41, 2, 30, 8, 39, 42, 11];
    let (found, scale) = learn::<OneOfTwo>(&run("found"), &start, overflowing, 1, None, 2);
    assert_eq!(scale.skipped_steps(), 3);
    // The control run leaves out the steps that overflow: 2, 4 and 5.
    let without = [0, 5, 9, 0, 5, 9, 2, 30, 39, 2, 30, 39];
    let (control, _) = learn::<NoneOfTwo>(&run("control"), &start, without, 1, None, 2);
    assert!(found != start && found != control);
}
