//! Data-parallel training on all CUDA devices with Burn's `distributed` feature, under `Amp`.
//!
//! ```sh
//! cargo run --release -p burn-amp --no-default-features --features cuda,distributed,train --example distributed
//! ```

use std::sync::Arc;

use burn::{
    backend::{Cuda, cuda::CudaDevice},
    data::{
        dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher},
        dataset::InMemDataset,
    },
    lr_scheduler::constant::ConstantLr,
    module::Module,
    nn::{Linear, LinearConfig},
    optim::AdamConfig,
    tensor::{
        Distribution, Tensor,
        backend::{
            AutodiffBackend, Backend,
            distributed::{DistributedConfig, ReduceOperation},
        },
    },
    train::{
        ExecutionStrategy, InferenceStep, Learner, RegressionOutput, SupervisedTraining,
        TrainOutput, TrainStep, TrainingStrategy, metric::LossMetric,
    },
};
use burn_amp::{Amp, Autodiff, loss_scale, metric::AmpMetric, optim::AmpOptimizer};

type B = Autodiff<Amp<Cuda>>;

#[derive(Module, Debug)]
struct Model<B: Backend> {
    linear: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn output(&self, x: Tensor<B, 2>) -> RegressionOutput<B> {
        let targets = x.clone() * 0.5;
        let output = self.linear.forward(x);
        let loss = (output.clone() - targets.clone()).square().mean();
        RegressionOutput {
            loss,
            output,
            targets,
        }
    }
}

impl<B: AutodiffBackend> TrainStep for Model<B> {
    type Input = Tensor<B, 2>;
    type Output = RegressionOutput<B>;

    fn step(&self, x: Tensor<B, 2>) -> TrainOutput<RegressionOutput<B>> {
        let output = self.output(x);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for Model<B> {
    type Input = Tensor<B, 2>;
    type Output = RegressionOutput<B>;

    fn step(&self, x: Tensor<B, 2>) -> RegressionOutput<B> {
        self.output(x)
    }
}

/// Makes batches of noise, one row per item.
#[derive(Clone)]
struct Noise;

impl<B: Backend> Batcher<B, (), Tensor<B, 2>> for Noise {
    fn batch(&self, items: Vec<()>, device: &B::Device) -> Tensor<B, 2> {
        Tensor::random([items.len(), 256], Distribution::Default, device)
    }
}

fn loader<B: Backend>(items: usize) -> Arc<dyn DataLoader<B, Tensor<B, 2>>> {
    DataLoaderBuilder::new(Noise)
        .batch_size(64)
        .build(InMemDataset::new(vec![(); items]))
}

fn main() {
    let devices: Vec<_> = (0..<B as Backend>::device_count(0))
        .map(CudaDevice::new)
        .collect();
    let config = DistributedConfig {
        all_reduce_op: ReduceOperation::Mean,
    };
    let model = Model::<B> {
        linear: LinearConfig::new(256, 256).init(&devices[0]),
    };
    let optimizer = AmpOptimizer::new(AdamConfig::new()).init();
    let scale = loss_scale::<B>(&devices[0]);
    SupervisedTraining::new("distributed", loader::<B>(64 * 1000), loader(64 * 10))
        .metric_train_numeric(LossMetric::new())
        .metric_train_numeric(AmpMetric::loss_scale(scale))
        .metric_train_numeric(AmpMetric::skipped_steps(scale))
        .with_training_strategy(TrainingStrategy::Default(ExecutionStrategy::ddp(
            devices, config,
        )))
        .num_epochs(2)
        .launch(Learner::new(model, optimizer, ConstantLr::new(1e-3)));
}
