//! Multi-layer perceptron with ReLU, in three sizes.

use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    prelude::*,
    tensor::{activation::relu, backend::AutodiffBackend},
};

use crate::{
    Draw, Example, Labelled, Net, ZooModel, accuracy, loss::cross_entropy, weights::WeightsError,
};

/// The amplitude of a class's pattern, in standard deviations of the noise: two classes of 784 features are 4 apart, so
/// that some items are confused.
const SIGNAL: f32 = 0.1;

#[derive(Clone, Debug)]
pub struct MlpConfig {
    /// The widths of the layers, from the input features to the classes.
    pub widths: Vec<usize>,
}

impl MlpConfig {
    /// 116,058 parameters.
    pub fn full() -> Self {
        Self::new([784, 128, 112, 10])
    }

    /// 2,515,850 parameters.
    pub fn full_medium() -> Self {
        Self::new([784, 1024, 1024, 640, 10])
    }

    /// 159,422,464 parameters: nine square layers and a head of 2048 classes.
    pub fn full_large() -> Self {
        let mut widths = [4096; 11];
        widths[10] = 2048;
        Self::new(widths)
    }

    pub fn tiny() -> Self {
        Self::new([784, 32, 24, 10])
    }

    pub fn tiny_medium() -> Self {
        Self::new([784, 64, 64, 40, 10])
    }

    pub fn tiny_large() -> Self {
        let mut widths = [64; 11];
        widths[10] = 32;
        Self::new(widths)
    }

    fn new(widths: impl Into<Vec<usize>>) -> Self {
        let widths = widths.into();
        Self { widths }
    }

    fn features(&self) -> usize {
        self.widths[0]
    }

    fn classes(&self) -> usize {
        self.widths[self.widths.len() - 1]
    }
}

#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl<B: Backend> Mlp<B> {
    /// From `[batch, feature]` to logits `[batch, class]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let (head, hidden) = self.layers.split_last().expect("a width more than layers");
        head.forward(hidden.iter().fold(x, |x, layer| relu(layer.forward(x))))
    }
}

impl ZooModel for MlpConfig {
    type Batch<B: Backend> = Labelled<B, 2>;
    type Net<B: Backend> = Mlp<B>;
    type TrainNet<B: AutodiffBackend> = Mlp<B>;

    fn item_shape(&self) -> Vec<usize> {
        vec![self.features()]
    }

    fn batch<B: Backend>(&self, draw: Draw, device: &B::Device) -> Labelled<B, 2> {
        let item = [1, self.features()];
        Labelled::draw(draw, item, item, self.classes(), SIGNAL, device)
    }

    fn read_batch<B: Backend>(
        example: &Example,
        device: &B::Device,
    ) -> Result<Labelled<B, 2>, WeightsError> {
        Labelled::read(example, device)
    }
}

impl<B: Backend> Net<B> for Mlp<B> {
    type Model = MlpConfig;

    fn init(model: &MlpConfig, device: &B::Device) -> Self {
        let layers = model
            .widths
            .windows(2)
            .map(|pair| LinearConfig::new(pair[0], pair[1]).init(device))
            .collect();
        Self { layers }
    }

    fn loss(&self, batch: &Labelled<B, 2>) -> Tensor<B, 1> {
        cross_entropy(self.forward(batch.x.clone()), batch.target.clone())
    }

    fn accuracy(&self, batch: &Labelled<B, 2>) -> Option<Tensor<B, 1>> {
        let logits = self.forward(batch.x.clone());
        Some(accuracy::of_classes(logits, batch.target.clone()))
    }
}
