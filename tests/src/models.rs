//! Small models, written as they would be without burn-amp, and functions to run them.

use std::sync::{Mutex, PoisonError};

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

/// Fixed values between -1 and 1 that look random, so that their sums cancel no more than those of random values.
pub fn noise<B: Backend>(len: usize, device: &B::Device) -> Tensor<B, 1> {
    // Multiplicative hashing of the squares, with 2^32 / golden ratio (Knuth, TAOCP 6.4).
    let values: Vec<f32> = (1..=len as u32)
        .map(|i| i.wrapping_mul(i).wrapping_mul(2654435769) as i32 as f32 / 2f32.powi(31))
        .collect();
    Tensor::from_data(TensorData::new(values, [len]), device)
}

/// Locked by functions that may draw random numbers, because a backend has one generator per process.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the record of a new module. The values are the same in every process, the parameter ids are new.
pub fn seeded<B: Backend, M: Module<B>>(init: impl FnOnce(&B::Device) -> M) -> Vec<u8> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    B::seed(&here(), 1);
    save::<B, M>(init(&here()))
}

/// A layer that has the same values on every backend.
pub fn linear<B: AutodiffBackend>(inputs: usize, outputs: usize) -> nn::Linear<B> {
    let config = nn::LinearConfig::new(inputs, outputs);
    let record = seeded::<PlainAutodiff, nn::Linear<PlainAutodiff>>(|device| config.init(device));
    load::<B, _>(config.init(&here()), record)
}

/// Returns the record of a module, as bytes.
pub fn save<B: Backend, M: Module<B>>(module: M) -> Vec<u8> {
    bytes_of::<B>(module.into_record())
}

/// Loads the parameters of a record into a module.
pub fn load<B: Backend, M: Module<B>>(module: M, record: Vec<u8>) -> M {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    module.load_record(from_bytes::<B, _>(record))
}

/// The results and gradients of an example.
#[derive(Debug, PartialEq)]
pub struct Run {
    pub results: Named,
    pub gradients: Named,
}

/// Runs an example forward and backward from the parameters of `record`.
///
/// `inspect` gets the model and the gradients. After an overflow, which withholds the gradients, the step is run again.
pub fn run<E: Example, B: AutodiffBackend>(
    record: &[u8],
    inspect: impl Fn(&E::Model<B>, &B::Gradients),
) -> Run {
    let model = load::<B, _>(E::init::<B>(&here()), record.to_vec());
    for _ in 0..24 {
        let x = noise::<B>(E::INPUT, &here()).require_grad();
        let output = E::forward(&model, x.clone());
        let weights = noise(output.dims()[0], &here()) + 0.5;
        let loss = (output.clone() * weights).square().mean();
        let mut grads = loss.backward();
        let Some(gradient) = x.grad_remove(&mut grads) else {
            continue;
        };
        inspect(&model, &grads);
        let mut all = vec![("input".to_string(), gradient.into_data())];
        all.extend(gradients::<B, _>(&model, &grads));
        return Run {
            results: vec![
                ("output".to_string(), output.into_data()),
                ("loss".to_string(), loss.into_data()),
            ],
            gradients: all,
        };
    }
    panic!("no gradients in 24 steps");
}

/// The gradients of a module's parameters, with the parameters' names.
pub fn gradients<B: AutodiffBackend, M: Module<B>>(module: &M, grads: &B::Gradients) -> Named {
    struct Collect<'a, B: AutodiffBackend> {
        grads: &'a B::Gradients,
        path: Vec<String>,
        found: Named,
    }

    impl<B: AutodiffBackend> ModuleVisitor<B> for Collect<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if let Some(gradient) = param.val().grad(self.grads) {
                self.found.push((self.path.join("."), gradient.into_data()));
            }
        }

        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }

        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
    }

    let mut collect = Collect {
        grads,
        path: Vec::new(),
        found: Vec::new(),
    };
    module.visit(&mut collect);
    collect.found
}
