//! Layers of burn-nn, with parameters that are a function of a seed.

use burn::nn::{
    self,
    attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig},
    conv::{
        Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, ConvTranspose1d, ConvTranspose1dConfig,
        ConvTranspose2d, ConvTranspose2dConfig,
    },
};

use crate::prelude::*;

use super::{
    draw::Draw,
    rng::Rng,
    setting::Setting,
    shape::{Shape, windows},
};

/// A layer of burn-nn, by its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LayerSpec {
    Linear {
        input: usize,
        output: usize,
        bias: bool,
    },
    Conv1d {
        input: usize,
        output: usize,
        kernel: usize,
    },
    Conv2d {
        input: usize,
        output: usize,
        kernel: usize,
    },
    ConvTranspose1d {
        input: usize,
        output: usize,
        kernel: usize,
    },
    ConvTranspose2d {
        input: usize,
        output: usize,
        kernel: usize,
    },
    BatchNorm {
        channels: usize,
    },
    GroupNorm {
        groups: usize,
        channels: usize,
    },
    InstanceNorm {
        channels: usize,
    },
    LayerNorm {
        width: usize,
    },
    RmsNorm {
        width: usize,
    },
    Lstm {
        input: usize,
        hidden: usize,
    },
    Gru {
        input: usize,
        hidden: usize,
    },
    Attention {
        width: usize,
        heads: usize,
    },
    /// Its operand gives the number of rows to look up.
    Embedding {
        words: usize,
        width: usize,
    },
}

/// A layer. The variants are those of [`LayerSpec`].
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a program has a few layers, and `Module` is not derived for boxes"
)]
pub enum Layer<B: Backend> {
    Linear(nn::Linear<B>),
    Conv1d(Conv1d<B>),
    Conv2d(Conv2d<B>),
    ConvTranspose1d(ConvTranspose1d<B>),
    ConvTranspose2d(ConvTranspose2d<B>),
    BatchNorm(nn::BatchNorm<B>),
    GroupNorm(nn::GroupNorm<B>),
    InstanceNorm(nn::InstanceNorm<B>),
    LayerNorm(nn::LayerNorm<B>),
    RmsNorm(nn::RmsNorm<B>),
    Lstm(nn::Lstm<B>),
    Gru(nn::gru::Gru<B>),
    Attention(MultiHeadAttention<B>),
    Embedding(nn::Embedding<B>),
}

impl LayerSpec {
    /// The shape of the result; `None` if the operand does not fit.
    pub fn shape(self, x: &Shape) -> Option<Shape> {
        let (rank, last) = (x.len(), *x.last()?);
        (!x.contains(&0)).then_some(())?;
        let with_last = |size| [&x[..rank - 1], &[size][..]].concat();
        let is_channels = |of: usize, ranks: &[usize]| ranks.contains(&rank) && x[1] == of;
        let convolved = |input, output, kernel, ranks: &[usize]| -> Option<Shape> {
            is_channels(input, ranks).then_some(())?;
            let mut shape = vec![x[0], output];
            for size in &x[2..] {
                shape.push(windows(*size, kernel, 1, 0)?);
            }
            Some(shape)
        };
        let transposed = |input, output, kernel: usize, ranks: &[usize]| {
            let sizes = || x[2..].iter().map(|size| size - 1 + kernel);
            is_channels(input, ranks).then(|| [x[0], output].into_iter().chain(sizes()).collect())
        };
        let same_if = |fits: bool| fits.then(|| x.clone());
        match self {
            Self::Linear { input, output, .. } => {
                ((2..=4).contains(&rank) && last == input).then(|| with_last(output))
            }
            Self::Conv1d {
                input,
                output,
                kernel,
            } => convolved(input, output, kernel, &[3]),
            Self::Conv2d {
                input,
                output,
                kernel,
            } => convolved(input, output, kernel, &[4]),
            Self::ConvTranspose1d {
                input,
                output,
                kernel,
            } => transposed(input, output, kernel, &[3]),
            Self::ConvTranspose2d {
                input,
                output,
                kernel,
            } => transposed(input, output, kernel, &[4]),
            Self::BatchNorm { channels }
            | Self::GroupNorm { channels, .. }
            | Self::InstanceNorm { channels } => same_if(is_channels(channels, &[3, 4])),
            Self::LayerNorm { width } | Self::RmsNorm { width } => {
                same_if((2..=4).contains(&rank) && last == width)
            }
            Self::Lstm { input, hidden } | Self::Gru { input, hidden } => {
                (rank == 3 && last == input).then(|| with_last(hidden))
            }
            Self::Attention { width, .. } => same_if(rank == 3 && last == width),
            Self::Embedding { width, .. } => (rank == 2).then(|| vec![x[0], x[1], width]),
        }
    }

    /// Makes the layer; its parameters are drawn with `seed`.
    pub fn init<B: Backend>(self, to: &Setting<B>, seed: u64) -> Layer<B> {
        // Burn draws parameters before they are replaced.
        let _turn = super::turn();
        let device = &to.device;
        let layer = match self {
            Self::Linear {
                input,
                output,
                bias,
            } => Layer::Linear(
                nn::LinearConfig::new(input, output)
                    .with_bias(bias)
                    .init(device),
            ),
            Self::Conv1d {
                input,
                output,
                kernel,
            } => Layer::Conv1d(Conv1dConfig::new(input, output, kernel).init(device)),
            Self::Conv2d {
                input,
                output,
                kernel,
            } => Layer::Conv2d(Conv2dConfig::new([input, output], [kernel, kernel]).init(device)),
            Self::ConvTranspose1d {
                input,
                output,
                kernel,
            } => Layer::ConvTranspose1d(
                ConvTranspose1dConfig::new([input, output], kernel).init(device),
            ),
            Self::ConvTranspose2d {
                input,
                output,
                kernel,
            } => Layer::ConvTranspose2d(
                ConvTranspose2dConfig::new([input, output], [kernel, kernel]).init(device),
            ),
            Self::BatchNorm { channels } => {
                Layer::BatchNorm(nn::BatchNormConfig::new(channels).init(device))
            }
            Self::GroupNorm { groups, channels } => {
                Layer::GroupNorm(nn::GroupNormConfig::new(groups, channels).init(device))
            }
            Self::InstanceNorm { channels } => {
                Layer::InstanceNorm(nn::InstanceNormConfig::new(channels).init(device))
            }
            Self::LayerNorm { width } => {
                Layer::LayerNorm(nn::LayerNormConfig::new(width).init(device))
            }
            Self::RmsNorm { width } => Layer::RmsNorm(nn::RmsNormConfig::new(width).init(device)),
            Self::Lstm { input, hidden } => {
                Layer::Lstm(nn::LstmConfig::new(input, hidden, true).init(device))
            }
            Self::Gru { input, hidden } => {
                Layer::Gru(nn::gru::GruConfig::new(input, hidden, true).init(device))
            }
            Self::Attention { width, heads } => Layer::Attention(
                MultiHeadAttentionConfig::new(width, heads)
                    .with_dropout(0.0)
                    .init(device),
            ),
            Self::Embedding { words, width } => {
                Layer::Embedding(nn::EmbeddingConfig::new(words, width).init(device))
            }
        };
        layer.map(&mut Draw {
            rng: Rng::new(seed),
            to: to.clone(),
        })
    }

    /// The expression that makes it.
    pub fn literal(self) -> String {
        format!("LayerSpec::{self:?}")
    }
}

/// Calls a function with a tensor of whatever rank among those given.
///
/// A macro, because the rank is part of the tensor's type.
macro_rules! in_rank {
    ($x:ident [$($rank:literal)*] $forward:expr) => {
        match $x.shape().num_dims() {
            $($rank => {
                let $x: Tensor<B, $rank> = Tensor::from_primitive(TensorPrimitive::Float($x));
                $forward.into_primitive().tensor()
            })*
            _ => unreachable!("the shape rule refuses other ranks"),
        }
    };
}

impl<B: AutodiffBackend> Layer<B> {
    /// Runs the layer.
    pub fn forward(&self, x: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::Linear(layer) => in_rank!(x [2 3 4] layer.forward(x)),
            Self::Conv1d(layer) => in_rank!(x [3] layer.forward(x)),
            Self::Conv2d(layer) => in_rank!(x [4] layer.forward(x)),
            Self::ConvTranspose1d(layer) => in_rank!(x [3] layer.forward(x)),
            Self::ConvTranspose2d(layer) => in_rank!(x [4] layer.forward(x)),
            Self::BatchNorm(layer) => in_rank!(x [3 4] layer.forward(x)),
            Self::GroupNorm(layer) => in_rank!(x [3 4] layer.forward(x)),
            Self::InstanceNorm(layer) => in_rank!(x [3 4] layer.forward(x)),
            Self::LayerNorm(layer) => in_rank!(x [2 3 4] layer.forward(x)),
            Self::RmsNorm(layer) => in_rank!(x [2 3 4] layer.forward(x)),
            Self::Lstm(layer) => in_rank!(x [3] layer.forward(x, None).0),
            Self::Gru(layer) => in_rank!(x [3] layer.forward(x, None)),
            Self::Attention(layer) => in_rank!(x [3] layer.forward(MhaInput::self_attn(x)).context),
            Self::Embedding(layer) => in_rank!(x [2] {
                let [rows, columns] = x.dims();
                let words = layer.weight.dims()[0] as i64;
                let places = Tensor::<B, 1, Int>::arange(0..(rows * columns) as i64, &x.device());
                layer.forward((places * 7).remainder_scalar(words).reshape([rows, columns]))
            }),
        }
    }
}
