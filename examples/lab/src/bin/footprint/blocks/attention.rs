//! What attention is made of.

use std::marker::PhantomData;

use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig, RotaryEncoding, RotaryEncodingConfig,
        attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
    },
    prelude::*,
    tensor::{backend::AutodiffBackend, module::attention, ops::AttentionModuleOptions},
};

use super::Block;

/// Three projections of one activation, added up.
pub struct Qkv;

#[derive(Module, Debug)]
pub struct Projections<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl Block<3> for Qkv {
    type Net<B: AutodiffBackend> = Projections<B>;

    const INPUT: [usize; 3] = [8, 128, 256];
    const OUTPUT: [usize; 3] = [8, 128, 64];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Projections<B> {
        let linear = |_| LinearConfig::new(256, 64).with_bias(false).init(device);
        Projections {
            layers: (0..3).map(linear).collect(),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Projections<B>, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let x = x * 1.5;
        let [q, k, v] = [0, 1, 2].map(|i| net.layers[i].forward(x.clone()));
        q + k + v
    }
}

/// Rotary position embedding of a query or key.
pub struct Rope;

impl Block<4> for Rope {
    type Net<B: AutodiffBackend> = RotaryEncoding<B>;

    const INPUT: [usize; 4] = [4, 4, 256, 64];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> RotaryEncoding<B> {
        RotaryEncodingConfig::new(256, 64).init(device)
    }

    fn forward<B: AutodiffBackend>(net: &RotaryEncoding<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
        net.forward(x)
    }
}

/// `module::attention` of one tensor as query, key and value.
pub struct Attention;

/// A net without parameters.
#[derive(Module, Debug)]
pub struct Nothing<B: Backend> {
    backend: PhantomData<B>,
}

impl Block<4> for Attention {
    type Net<B: AutodiffBackend> = Nothing<B>;

    const INPUT: [usize; 4] = [2, 4, 256, 32];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(_: &B::Device) -> Nothing<B> {
        Nothing {
            backend: PhantomData,
        }
    }

    fn forward<B: AutodiffBackend>(_: &Nothing<B>, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let options = AttentionModuleOptions::default();
        attention(x.clone(), x.clone(), x, None, None, options)
    }
}

/// Multi-head self-attention without dropout.
pub struct SelfAttention;

#[derive(Module, Debug)]
pub struct Attended<B: Backend> {
    attention: MultiHeadAttention<B>,
}

impl Block<3> for SelfAttention {
    type Net<B: AutodiffBackend> = Attended<B>;

    const INPUT: [usize; 3] = [2, 256, 128];
    const INPUT_REQUIRES_GRAD: bool = true;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Attended<B> {
        let config = MultiHeadAttentionConfig::new(128, 4).with_dropout(0.0);
        Attended {
            attention: config.init(device),
        }
    }

    fn forward<B: AutodiffBackend>(net: &Attended<B>, x: Tensor<B, 3>) -> Tensor<B, 3> {
        net.attention.forward(MhaInput::self_attn(x)).context
    }
}
