//! Small models, written as they would be without burn-amp, and functions to run them.

mod run;

use burn::{
    nn::{
        self,
        attention::generate_autoregressive_mask,
        conv::{ConvTranspose2d, ConvTranspose2dConfig},
        interpolate::{Interpolate2d, Interpolate2dConfig, InterpolateMode},
        loss::{BinaryCrossEntropyLossConfig, CTCLossConfig},
        pool::{
            AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, AvgPool2d, AvgPool2dConfig, MaxPool2d,
            MaxPool2dConfig,
        },
        transformer::{TransformerEncoderConfig, TransformerEncoderInput},
    },
    tensor::{activation::log_softmax, module::attention},
};

pub use run::*;

use crate::{near::Named, prelude::*};

/// A model with its input.
pub trait Example {
    /// The number of elements of the input.
    const INPUT: usize;

    type Model<B: AutodiffBackend>: AutodiffModule<B>;

    fn init<B: AutodiffBackend>(device: &B::Device) -> Self::Model<B>;

    /// Computes the flattened output from the flattened input.
    fn forward<B: AutodiffBackend>(model: &Self::Model<B>, x: Tensor<B, 1>) -> Tensor<B, 1>;
}

/// Declares an [`Example`]. A macro, because a value cannot name a model's type for every backend.
macro_rules! example {
    (
        $(#[$doc:meta])*
        $name:ident, [$($dim:literal),+] -> $model_type:ty,
        |$device:ident| $init:expr, |$model:pat_param, $x:ident| $forward:expr
    ) => {
        $(#[$doc])*
        pub struct $name;

        impl Example for $name {
            const INPUT: usize = 1 $(* $dim)+;

            type Model<B: AutodiffBackend> = $model_type;

            fn init<B: AutodiffBackend>($device: &B::Device) -> Self::Model<B> {
                $init
            }

            fn forward<B: AutodiffBackend>($model: &Self::Model<B>, x: Tensor<B, 1>) -> Tensor<B, 1> {
                let $x = x.reshape([$($dim),+]);
                $forward.reshape([-1])
            }
        }
    };
}

example!(
    MultiHeadAttention, [2, 5, 8] -> nn::attention::MultiHeadAttention<B>,
    |device| MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0).init(device),
    |model, x| model.forward(MhaInput::self_attn(x)).context
);

example!(
    TransformerEncoder, [2, 5, 8] -> nn::transformer::TransformerEncoder<B>,
    |device| TransformerEncoderConfig::new(8, 16, 2, 2).with_dropout(0.0).init(device),
    |model, x| model.forward(TransformerEncoderInput::new(x))
);

example!(
    Lstm, [2, 6, 4] -> nn::Lstm<B>,
    |device| nn::LstmConfig::new(4, 5, true).init(device),
    |model, x| model.forward(x, None).0
);

example!(
    Gru, [2, 6, 4] -> nn::gru::Gru<B>,
    |device| nn::gru::GruConfig::new(4, 5, true).init(device),
    |model, x| model.forward(x, None)
);

example!(
    Embedding, [2, 4, 6] -> (nn::Embedding<B>, nn::Linear<B>),
    |device| (
        nn::EmbeddingConfig::new(7, 6).init(device),
        nn::LinearConfig::new(6, 3).init(device),
    ),
    |(embedding, linear), x| {
        let tokens = Tensor::from_ints([[0, 3, 3, 6], [1, 0, 5, 3]], &x.device());
        linear.forward(embedding.forward(tokens) * x)
    }
);

example!(
    GroupNorm, [2, 3, 6, 6] -> (Conv2d<B>, nn::GroupNorm<B>),
    |device| (
        Conv2dConfig::new([3, 4], [3, 3]).init(device),
        nn::GroupNormConfig::new(2, 4).init(device),
    ),
    |(conv, norm), x| norm.forward(conv.forward(x))
);

example!(
    RmsNorm, [4, 8] -> (nn::Linear<B>, nn::RmsNorm<B>),
    |device| (
        nn::LinearConfig::new(8, 8).init(device),
        nn::RmsNormConfig::new(8).init(device),
    ),
    |(linear, norm), x| norm.forward(linear.forward(x))
);

example!(
    LayerNorm, [4, 8] -> (nn::Linear<B>, nn::LayerNorm<B>),
    |device| (
        nn::LinearConfig::new(8, 8).init(device),
        nn::LayerNormConfig::new(8).init(device),
    ),
    |(linear, norm), x| norm.forward(linear.forward(x))
);

example!(
    BatchNorm, [4, 3, 6, 6] -> (Conv2d<B>, nn::BatchNorm<B>),
    |device| (
        Conv2dConfig::new([3, 4], [3, 3]).init(device),
        nn::BatchNormConfig::new(4).init(device),
    ),
    |(conv, norm), x| norm.forward(conv.forward(x))
);

example!(
    Convolutions, [2, 3, 6, 6] -> (Conv2d<B>, ConvTranspose2d<B>),
    |device| (
        Conv2dConfig::new([3, 4], [3, 3]).init(device),
        ConvTranspose2dConfig::new([4, 2], [3, 3]).with_stride([2, 2]).init(device),
    ),
    |(conv, transposed), x| transposed.forward(conv.forward(x).tanh())
);

/// The mode of interpolation. On CubeCL it is the only one for which burn-cubecl 0.21.0 has a backward kernel.
const RESIZE: InterpolateMode = match cfg!(feature = "cubecl") {
    true => InterpolateMode::Nearest,
    false => InterpolateMode::Linear,
};

example!(
    Resize, [2, 3, 6, 6] -> (Conv2d<B>, Interpolate2d),
    |device| (
        Conv2dConfig::new([3, 2], [3, 3]).init(device),
        Interpolate2dConfig::new()
            .with_output_size(Some([7, 9]))
            .with_mode(RESIZE)
            .init(),
    ),
    |(conv, resize), x| resize.forward(conv.forward(x))
);

example!(
    MaxPooling, [2, 3, 6, 6] -> (Conv2d<B>, MaxPool2d),
    |device| (
        Conv2dConfig::new([3, 2], [3, 3]).init(device),
        MaxPool2dConfig::new([2, 2]).init(),
    ),
    |(conv, pool), x| pool.forward(conv.forward(x))
);

example!(
    AveragePooling, [2, 3, 6, 6] -> (Conv2d<B>, AvgPool2d),
    |device| (
        Conv2dConfig::new([3, 2], [3, 3]).init(device),
        AvgPool2dConfig::new([2, 2]).init(),
    ),
    |(conv, pool), x| pool.forward(conv.forward(x))
);

example!(
    AdaptivePooling, [2, 3, 7, 7] -> (Conv2d<B>, AdaptiveAvgPool2d),
    |device| (
        Conv2dConfig::new([3, 2], [3, 3]).init(device),
        AdaptiveAvgPool2dConfig::new([2, 3]).init(),
    ),
    |(conv, pool), x| pool.forward(conv.forward(x))
);

example!(
    Ctc, [8, 2, 4] -> nn::Linear<B>,
    |device| nn::LinearConfig::new(4, 5).init(device),
    |model, x| {
        let device = x.device();
        CTCLossConfig::new().init().forward(
            log_softmax(model.forward(x), 2),
            Tensor::from_ints([[1, 2, 2], [4, 3, 1]], &device),
            Tensor::from_ints([8, 7], &device),
            Tensor::from_ints([3, 2], &device),
        )
    }
);

example!(
    SmoothedCrossEntropy, [4, 6] -> nn::Linear<B>,
    |device| nn::LinearConfig::new(6, 5).init(device),
    |model, x| {
        let device = x.device();
        let targets = Tensor::from_ints([0, 4, 2, 2], &device);
        let loss = CrossEntropyLossConfig::new().with_smoothing(Some(0.1)).init(&device);
        loss.forward(model.forward(x), targets)
    }
);

example!(
    BceWithLogits, [4, 6] -> nn::Linear<B>,
    |device| nn::LinearConfig::new(6, 2).init(device),
    |model, x| {
        let device = x.device();
        let targets = Tensor::<B, 2, Int>::from_ints([[0, 1], [1, 1], [0, 0], [1, 0]], &device);
        let loss = BinaryCrossEntropyLossConfig::new().with_logits(true).init(&device);
        loss.forward(model.forward(x), targets)
    }
);

example!(
    /// Softmax with a mask of `-1e9`, which is below the range of F16.
    MaskFilledSoftmax, [2, 5, 6] -> (nn::Linear<B>, nn::Linear<B>),
    |device| (
        nn::LinearConfig::new(6, 4).init(device),
        nn::LinearConfig::new(6, 4).init(device),
    ),
    |(query, key), x| {
        let mask = generate_autoregressive_mask::<B>(2, 5, &x.device());
        let scores = query.forward(x.clone()).matmul(key.forward(x.clone()).transpose());
        softmax(scores.mask_fill(mask, -1e9), 2).matmul(x)
    }
);

example!(
    /// Division by a norm plus `1e-8`, which is 0 in F16.
    DivisionWithEpsilon, [4, 6] -> nn::Linear<B>,
    |device| nn::LinearConfig::new(6, 6).init(device),
    |model, x| {
        let y = model.forward(x);
        let norm = y.clone().powf_scalar(2.0).sum_dim(1).sqrt();
        let silence = y.clone().detach() * 0.0;
        y.div(norm + 1e-8) + silence.clone().div(silence + 1e-8)
    }
);

example!(
    AttentionOp, [2, 5, 8] -> [nn::Linear<B>; 3],
    |device| core::array::from_fn(|_| nn::LinearConfig::new(8, 8).init(device)),
    |projections, x| {
        let [query, key, value] =
            core::array::from_fn(|i| projections[i].forward(x.clone()).reshape([2, 5, 2, 4]).swap_dims(1, 2));
        attention(query, key, value, None, None, Default::default())
    }
);
