//! Whole training steps of a net whose parameters outweigh its activations, and a block of BERT-base at full size.

use burn::{
    module::Module,
    nn::{
        Linear, LinearConfig,
        transformer::{TransformerEncoder, TransformerEncoderConfig, TransformerEncoderInput},
    },
    optim::{AdamConfig, GradientsParams, Optimizer},
    prelude::*,
    tensor::{Distribution, activation::relu},
};
use serde::Serialize;

use crate::{
    counting::highest,
    memory::heap,
    precision::{Bf16, F16, F32, Precision},
};

/// A measurement in F32, BF16 and F16.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Three {
    pub f32: u64,
    pub bf16: u64,
    pub f16: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Heavy {
    /// The most bytes during a training step of the parameter-heavy MLP with Adam: parameters, optimizer state,
    /// gradients and activations.
    pub peak_of_step: Three,
    /// The bytes that one encoder block of BERT-base keeps after the forward pass: batch 8, 512 tokens, dropout 0.1.
    pub bert_block_kept: Three,
}

impl Heavy {
    pub fn measure() -> Self {
        eprintln!("parameter-heavy MLP");
        let peak_of_step = Three {
            f32: peak_of_step::<F32>(),
            bf16: peak_of_step::<Bf16>(),
            f16: F16::scaled_afresh(peak_of_step::<F16>),
        };
        eprintln!("block of BERT-base");
        let bert_block_kept = Three {
            f32: bert_block::<F32>(),
            bf16: bert_block::<Bf16>(),
            f16: bert_block::<F16>(),
        };
        Self {
            peak_of_step,
            bert_block_kept,
        }
    }
}

/// Eight linear layers of 512 × 512 with ReLU: 8 MiB of parameters in F32.
#[derive(Module, Debug)]
struct Mlp<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl<B: Backend> Mlp<B> {
    fn new(device: &B::Device) -> Self {
        let linear = |_| LinearConfig::new(512, 512).with_bias(false).init(device);
        Self {
            layers: (0..8).map(linear).collect(),
        }
    }

    fn loss(&self, x: Tensor<B, 2>) -> Tensor<B, 1> {
        let layers = self.layers.iter();
        let y = layers.fold(x, |x, layer| relu(layer.forward(x)));
        (y * 1e-3).square().mean()
    }
}

/// The steps before the one that is measured: Adam's state exists, and the loss scale fits.
const WARM_UP: usize = 5;

fn peak_of_step<P: Precision>() -> u64 {
    let device = Default::default();
    let before = heap();
    let mut model = Mlp::<P::Training>::new(&device);
    let mut optimizer = AdamConfig::new().init::<P::Training, Mlp<P::Training>>();
    let mut last = 0;
    for _ in 0..=WARM_UP {
        let x = Tensor::random([8, 512], Distribution::Default, &device);
        let (peak, next) = highest(|| {
            let grads = GradientsParams::from_grads(model.loss(x).backward(), &model);
            optimizer.step(1e-4, model, grads)
        });
        model = next;
        last = peak.saturating_sub(before);
    }
    last
}

fn bert_block<P: Precision>() -> u64 {
    const SHAPE: [usize; 3] = [8, 512, 768];

    let device = Default::default();
    let block: TransformerEncoder<P::Training> =
        TransformerEncoderConfig::new(SHAPE[2], 3072, 12, 1).init(&device);
    let x = Tensor::random(SHAPE, Distribution::Default, &device);
    let before = heap();
    let output = block.forward(TransformerEncoderInput::new(x));
    let output_bytes = (SHAPE.iter().product::<usize>() * size_of::<f32>()) as u64;
    let kept = heap().saturating_sub(before + output_bytes);
    drop(output);
    kept
}
