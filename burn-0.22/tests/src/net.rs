//! A small net with a norm and an embedding, for the tests of optimizers.

use burn::{
    module::{Module, ModuleVisitor, Param},
    nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig},
    optim::GradientsParams,
    tensor::{DType, Device, Int, Tensor},
};

/// The net. Its layers have more than the 4096 elements from which on moments take fewer bytes, and fewer.
#[derive(Module, Debug)]
pub struct Net {
    embedding: Embedding,
    first: Linear,
    norm: LayerNorm,
    second: Linear,
}

impl Net {
    /// Draws the parameters.
    pub fn new(device: &Device) -> Self {
        device.seed(3);
        Self {
            embedding: EmbeddingConfig::new(16, 64).init(device),
            first: LinearConfig::new(64, 96).init(device),
            norm: LayerNormConfig::new(96).init(device),
            second: LinearConfig::new(96, 4).init(device),
        }
    }

    /// The loss of a batch.
    pub fn loss(&self, device: &Device) -> Tensor<1> {
        let words = Tensor::<2, Int>::from_ints([[1, 5, 3, 1], [9, 2, 15, 0]], device);
        let x = self.embedding.forward(words);
        let hidden = self.norm.forward(self.first.forward(x)).tanh();
        (self.second.forward(hidden) - 1.0).square().mean()
    }

    /// The gradients of a batch.
    pub fn gradients(&self, device: &Device) -> GradientsParams {
        GradientsParams::from_grads(self.loss(device).backward(), self)
    }

    /// The bits of all parameters, as F32.
    pub fn bits(&self) -> Vec<u32> {
        let mut bits = Bits(Vec::new());
        self.visit(&mut bits);
        bits.0
    }

    /// The dtypes of all parameters.
    pub fn dtypes(&self) -> Vec<DType> {
        let mut dtypes = Dtypes(Vec::new());
        self.visit(&mut dtypes);
        dtypes.0
    }
}

struct Bits(Vec<u32>);

impl ModuleVisitor for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let values = param.val().inner().cast(DType::F32).into_data();
        let values = values.try_to_vec::<f32>().expect("it is F32");
        self.0.extend(values.into_iter().map(f32::to_bits));
    }
}

struct Dtypes(Vec<DType>);

impl ModuleVisitor for Dtypes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(param.val().inner().dtype());
    }
}
