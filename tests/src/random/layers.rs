//! Layers of burn-nn, with parameters that are a function of a seed.
#![allow(
    clippy::large_enum_variant,
    reason = "a program has a few layers, and `Module` is not derived for boxes"
)]

#[cfg(not(burn_0_22))]
use burn::nn::{
    self,
    conv::{
        Conv1d, Conv1dConfig, ConvTranspose1d, ConvTranspose1dConfig, ConvTranspose2d,
        ConvTranspose2dConfig,
    },
};

use super::all::*;
use super::shape::windows;

#[cfg(burn_0_22)]
#[path = "../../../burn-0.22/tests/src/random/layers.rs"]
mod composed;
#[cfg(burn_0_22)]
pub use composed::Layer;

/// Declares the layers from rows `Name [sizes] { other numbers } [ranks] shape => module = configuration => result`.
///
/// Sizes are those of tensors, which shrinking makes smaller. The shape of the result is `None` if the operand does not
/// fit; operands have one of the ranks, and elements.
///
/// A macro, because the rank is part of a tensor's type, and each layer is a type.
macro_rules! layers {
    (
        |$layer:ident, $x:ident|
        $(
            $(#[$doc:meta])*
            $name:ident [$($size:ident),*] { $($other:ident: $type:ty),* } [$($rank:literal)*] $shape:expr
                => $module:ty = $config:expr => $forward:expr;
        )*
    ) => {
        /// A layer of burn-nn, by its sizes.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub enum LayerSpec {
            $($(#[$doc])* $name { $($size: usize,)* $($other: $type),* },)*
        }

        /// A layer. The variants are those of [`LayerSpec`].
        #[cfg(not(burn_0_22))]
        #[derive(Module, Debug)]
        pub enum Layer<B: Backend> {
            $($name($module),)*
        }

        #[allow(unused_variables, reason = "no layer needs all its numbers everywhere")]
        impl LayerSpec {
            /// The shape of the result; `None` if the operand does not fit.
            pub fn shape(self, $x: &Shape) -> Option<Shape> {
                (!$x.contains(&0)).then_some(())?;
                match self {
                    $(Self::$name { $($size,)* $($other),* } => {
                        [$($rank),*].contains(&$x.len()).then_some(())?;
                        $shape
                    })*
                }
            }

            /// The sizes of tensors.
            pub fn sizes(&mut self) -> Vec<&mut usize> {
                match self {
                    $(Self::$name { $($size,)* .. } => vec![$($size),*],)*
                }
            }
        }

        #[cfg(not(burn_0_22))]
        #[allow(unused_variables, reason = "no layer needs all its numbers everywhere")]
        impl LayerSpec {
            /// Makes the layer; its parameters are drawn with `seed`.
            pub fn init<B: Backend>(self, to: &Setting<B>, seed: u64) -> Layer<B> {
                // Burn draws parameters before they are replaced.
                let _turn = super::turn();
                let layer = match self {
                    $(Self::$name { $($size,)* $($other),* } => {
                        Layer::$name($config.init(&to.device))
                    })*
                };
                layer.map(&mut super::draw::Draw {
                    rng: Rng::new(seed),
                    to: to.clone(),
                })
            }
        }

        #[cfg(not(burn_0_22))]
        impl<B: AutodiffBackend> Layer<B> {
            /// Runs the layer.
            pub fn forward(&self, $x: FloatTensor<B>) -> FloatTensor<B> {
                match self {
                    $(Self::$name($layer) => match $x.shape().num_dims() {
                        $($rank => {
                            let $x: Tensor<B, $rank> = Tensor::from_primitive(TensorPrimitive::Float($x));
                            $forward.into_primitive().tensor()
                        })*
                        _ => unreachable!("the shape rule refuses other ranks"),
                    },)*
                }
            }
        }
    };
}

layers! { |layer, x|
    Linear [input, output] { bias: bool } [2 3 4] with_last(x, input, output)
        => nn::Linear<B> = nn::LinearConfig::new(input, output).with_bias(bias) => layer.forward(x);
    Conv1d [input, output] { kernel: usize } [3] convolved(x, input, output, kernel)
        => Conv1d<B> = Conv1dConfig::new(input, output, kernel) => layer.forward(x);
    Conv2d [input, output] { kernel: usize } [4] convolved(x, input, output, kernel)
        => Conv2d<B> = Conv2dConfig::new([input, output], [kernel; 2]) => layer.forward(x);
    ConvTranspose1d [input, output] { kernel: usize } [3] transposed(x, input, output, kernel)
        => ConvTranspose1d<B> = ConvTranspose1dConfig::new([input, output], kernel) => layer.forward(x);
    ConvTranspose2d [input, output] { kernel: usize } [4] transposed(x, input, output, kernel)
        => ConvTranspose2d<B> = ConvTranspose2dConfig::new([input, output], [kernel; 2]) => layer.forward(x);
    BatchNorm [channels] {} [3 4] same(x, 1, channels)
        => nn::BatchNorm<B> = nn::BatchNormConfig::new(channels) => layer.forward(x);
    GroupNorm [channels] { groups: usize } [3 4] same(x, 1, channels)
        => nn::GroupNorm<B> = nn::GroupNormConfig::new(groups, channels) => layer.forward(x);
    InstanceNorm [channels] {} [3 4] same(x, 1, channels)
        => nn::InstanceNorm<B> = nn::InstanceNormConfig::new(channels) => layer.forward(x);
    LayerNorm [width] {} [2 3 4] with_last(x, width, width)
        => nn::LayerNorm<B> = nn::LayerNormConfig::new(width) => layer.forward(x);
    RmsNorm [width] {} [2 3 4] with_last(x, width, width)
        => nn::RmsNorm<B> = nn::RmsNormConfig::new(width) => layer.forward(x);
    Lstm [input, hidden] {} [3] with_last(x, input, hidden)
        => nn::Lstm<B> = nn::LstmConfig::new(input, hidden, true) => layer.forward(x, None).0;
    Gru [input, hidden] {} [3] with_last(x, input, hidden)
        => nn::gru::Gru<B> = nn::gru::GruConfig::new(input, hidden, true) => layer.forward(x, None);
    Attention [width] { heads: usize } [3] with_last(x, width, width)
        => MultiHeadAttention<B> = MultiHeadAttentionConfig::new(width, heads).with_dropout(0.0)
        => layer.forward(MhaInput::self_attn(x)).context;
    /// Its operand gives the number of rows to look up.
    Embedding [words, width] {} [2] Some(vec![x[0], x[1], width])
        => nn::Embedding<B> = nn::EmbeddingConfig::new(words, width) => {
            let [rows, columns] = x.dims();
            let words = layer.weight.dims()[0] as i64;
            let places = Tensor::<B, 1, Int>::arange(0..(rows * columns) as i64, &x.device());
            layer.forward((places * 7).remainder_scalar(words).reshape([rows, columns]))
        };
}

impl LayerSpec {
    /// The expression that makes it.
    pub fn literal(self) -> String {
        format!("LayerSpec::{self:?}")
    }
}

fn same(x: &Shape, dim: usize, size: usize) -> Option<Shape> {
    (x[dim] == size).then(|| x.clone())
}

fn with_last(x: &Shape, input: usize, output: usize) -> Option<Shape> {
    let mut shape = same(x, x.len() - 1, input)?;
    *shape.last_mut()? = output;
    Some(shape)
}

fn convolved(x: &Shape, input: usize, output: usize, kernel: usize) -> Option<Shape> {
    same(x, 1, input)?;
    let sizes = x[2..].iter().map(|size| windows(*size, kernel, 1, 0));
    [Some(x[0]), Some(output)]
        .into_iter()
        .chain(sizes)
        .collect()
}

fn transposed(x: &Shape, input: usize, output: usize, kernel: usize) -> Option<Shape> {
    same(x, 1, input)?;
    let sizes = x[2..].iter().map(|size| size - 1 + kernel);
    Some([x[0], output].into_iter().chain(sizes).collect())
}
