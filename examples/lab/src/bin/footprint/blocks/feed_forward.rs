//! Linear layers with activations, gates and norms.

use burn::{
    module::Module,
    nn::{Linear, LinearConfig, RmsNorm, RmsNormConfig, SwiGlu, SwiGluConfig},
    prelude::*,
    tensor::{
        activation::{mish, relu, silu, softplus, tanh},
        backend::AutodiffBackend,
    },
};

use super::Block;

/// Linear layers with bias, 256 → 256.
#[derive(Module, Debug)]
pub struct Layers<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl<B: Backend> Layers<B> {
    fn new(count: usize, device: &B::Device) -> Self {
        let linear = |_| LinearConfig::new(256, 256).init(device);
        Self {
            layers: (0..count).map(linear).collect(),
        }
    }

    fn forward(
        &self,
        x: Tensor<B, 2>,
        activation: impl Fn(Tensor<B, 2>) -> Tensor<B, 2>,
    ) -> Tensor<B, 2> {
        let layers = self.layers.iter();
        layers.fold(x, |x, layer| activation(layer.forward(x)))
    }
}

/// Declares a block of linear layers with an activation after each. A macro, because an activation is generic over the
/// backend, and a constant cannot be.
macro_rules! layers {
    ($(#[$doc:meta])* $Block:ident, $count:literal, $activation:expr) => {
        $(#[$doc])*
        pub struct $Block;

        impl Block<2> for $Block {
            type Net<B: AutodiffBackend> = Layers<B>;

            const INPUT: [usize; 2] = [1024, 256];

            fn init<B: AutodiffBackend>(device: &B::Device) -> Layers<B> {
                Layers::new($count, device)
            }

            fn forward<B: AutodiffBackend>(net: &Layers<B>, x: Tensor<B, 2>) -> Tensor<B, 2> {
                net.forward(x, $activation)
            }
        }
    };
}

layers!(
    /// Two linear layers with ReLU.
    ReluMlp,
    2,
    relu
);
layers!(
    /// A linear layer with tanh.
    Tanh,
    1,
    tanh
);
layers!(
    /// A linear layer with softplus.
    Softplus,
    1,
    |x| softplus(x, 1.0)
);
layers!(
    /// A linear layer with mish.
    Mish,
    1,
    mish
);

/// `silu(a x) (b x)`.
pub struct GatedUnit;

impl Block<2> for GatedUnit {
    type Net<B: AutodiffBackend> = SwiGlu<B>;

    const INPUT: [usize; 2] = [1024, 256];
    const OUTPUT: [usize; 2] = [1024, 512];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> SwiGlu<B> {
        SwiGluConfig::new(256, 512).init(device)
    }

    fn forward<B: AutodiffBackend>(net: &SwiGlu<B>, x: Tensor<B, 2>) -> Tensor<B, 2> {
        net.forward(x)
    }
}

/// RMS norm alone.
pub struct Norm;

#[derive(Module, Debug)]
pub struct Normed<B: Backend> {
    norm: RmsNorm<B>,
}

impl Block<3> for Norm {
    type Net<B: AutodiffBackend> = Normed<B>;

    const INPUT: [usize; 3] = [8, 128, 256];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Normed<B> {
        Normed {
            norm: RmsNormConfig::new(256).init(device),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Normed<B>, x: Tensor<B, 3>) -> Tensor<B, 3> {
        net.norm.forward(x)
    }
}

/// The feed-forward half of a Llama layer: RMS norm, SwiGLU, and the residual.
pub struct LlamaMlp;

#[derive(Module, Debug)]
pub struct Llama<B: Backend> {
    norm: RmsNorm<B>,
    gate: Linear<B>,
    up: Linear<B>,
    down: Linear<B>,
}

impl Block<3> for LlamaMlp {
    type Net<B: AutodiffBackend> = Llama<B>;

    const INPUT: [usize; 3] = [8, 128, 256];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Llama<B> {
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        Llama {
            norm: RmsNormConfig::new(256).init(device),
            gate: linear(256, 512),
            up: linear(256, 512),
            down: linear(512, 256),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Llama<B>, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let h = net.norm.forward(x.clone());
        let gated = silu(net.gate.forward(h.clone())) * net.up.forward(h);
        x + net.down.forward(gated)
    }
}
