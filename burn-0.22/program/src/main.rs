//! Trains a small net on random images, and prints the loss of each step and its bits.

use burn::{
    module::Module,
    nn::{
        BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
        conv::{Conv2d, Conv2dConfig},
        loss::CrossEntropyLossConfig,
    },
    optim::{AdamWConfig, GradientsParams},
    tensor::{
        Device, Distribution, Int, Tensor,
        activation::{relu, softmax},
    },
};

/// The number of images, and of classes.
const IMAGES: usize = 64;
const CLASSES: usize = 10;

#[derive(Module, Debug)]
struct Net {
    conv: Conv2d,
    batch_norm: BatchNorm,
    hidden: Linear,
    layer_norm: LayerNorm,
    query: Linear,
    output: Linear,
}

impl Net {
    fn new(device: &Device) -> Self {
        Self {
            conv: Conv2dConfig::new([1, 8], [3, 3]).init(device),
            batch_norm: BatchNormConfig::new(8).init(device),
            hidden: LinearConfig::new(8 * 6 * 6, 64).init(device),
            layer_norm: LayerNormConfig::new(64).init(device),
            query: LinearConfig::new(64, 64).init(device),
            output: LinearConfig::new(64, CLASSES).init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = relu(self.batch_norm.forward(self.conv.forward(images)));
        let x = self
            .layer_norm
            .forward(relu(self.hidden.forward(x.flatten::<2>(1, 3))));
        let scores = self.query.forward(x.clone()).matmul(x.clone().transpose()) / 8.0;
        self.output
            .forward(x.clone() + softmax(scores, 1).matmul(x))
    }
}

fn main() {
    let device = Device::default().autodiff();
    device.seed(7);
    let mut model = Net::new(&device);
    let mut optimizer = AdamWConfig::new().init();
    let images = Tensor::<4>::random([IMAGES, 1, 8, 8], Distribution::Default, &device);
    let classes: [i64; IMAGES] = std::array::from_fn(|at| (at % CLASSES) as i64);
    let classes = Tensor::<1, Int>::from_data(classes, &device);
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    for _ in 0..40 {
        let loss = loss_of.forward(model.forward(images.clone()), classes.clone());
        let value = loss.clone().into_scalar::<f32>();
        println!("{value} {:08x}", value.to_bits());
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(1e-3, model, gradients);
    }
}
