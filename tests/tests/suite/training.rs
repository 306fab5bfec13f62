//! Law: under `o0`, training is bit-identical to the plain backend, loss scaling on or off; shared casts change no bit
//! either.

use burn::{
    nn::{Dropout, DropoutConfig},
    prelude::ElementConversion as _,
};
use burn_amp_tests::prelude::*;

#[derive(Module, Debug)]
struct Net<B: Backend> {
    conv: Conv2d<B>,
    batch_norm: BatchNorm<B>,
    embed: Linear<B>,
    attention: MultiHeadAttention<B>,
    norm: LayerNorm<B>,
    dropout: Dropout,
    head: Linear<B>,
}

impl<B: Backend> Net<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            conv: Conv2dConfig::new([1, 4], [3, 3]).init(device),
            batch_norm: BatchNormConfig::new(4).init(device),
            embed: LinearConfig::new(6, 8).init(device),
            attention: MultiHeadAttentionConfig::new(8, 2)
                .with_dropout(0.1)
                .init(device),
            norm: LayerNormConfig::new(8).init(device),
            dropout: DropoutConfig::new(0.3).init(),
            head: LinearConfig::new(8, 3).init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = gelu(self.batch_norm.forward(self.conv.forward(x)));
        let [batch, channels, rows, columns] = x.dims();
        let x = self
            .embed
            .forward(x.reshape([batch, channels * rows, columns]));
        let x = self.attention.forward(MhaInput::self_attn(x)).context;
        let x = self.dropout.forward(self.norm.forward(x));
        self.head.forward(x.mean_dim(1).squeeze_dim(1))
    }
}

/// The losses and the final parameters of 50 steps from a fixed seed.
fn train<B: AutodiffBackend>() -> (Vec<u8>, Vec<f32>) {
    B::seed(&here(), 7);
    let mut net = Net::<B>::new(&here());
    let mut optimizer = AdamWConfig::new().init();
    let x = Tensor::random([8, 1, 8, 8], Distribution::Normal(0.0, 1.0), &here());
    let target = Tensor::<B, 1, Int>::from_ints([0, 1, 2, 0, 1, 2, 0, 1], &here());
    let mut losses = Vec::new();
    for _ in 0..50 {
        let output = net.forward(x.clone());
        let loss = CrossEntropyLossConfig::new()
            .init(&here())
            .forward(output, target.clone());
        losses.push(loss.clone().into_scalar().elem());
        net = stepped(&mut optimizer, 0.01, loss, net);
    }
    (parameters(net), losses)
}

fn parameters<B: Backend>(net: Net<B>) -> Vec<u8> {
    struct Bits(Vec<u8>);

    impl<B: Backend> ModuleVisitor<B> for Bits {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.extend_from_slice(param.val().into_data().as_bytes());
        }
    }

    let mut bits = Bits(Vec::new());
    net.visit(&mut bits);
    bits.0
}

policy!(O0, changed(Config::default(), |it| it.preset = Preset::O0));
policy!(F32Static, scaling(Compute::F32, LossScaleMode::Static));

#[test]
fn an_all_f32_policy_is_bit_identical_to_the_plain_backend_over_50_steps() {
    let plain = train::<PlainAutodiff>();
    assert!(plain.1[49] < 0.5 * plain.1[0], "{:?}", plain.1);
    let under = |result| assert!(result == plain);
    under(within::<O0, _>(train::<AmpAutodiff>));
    under(within::<F32Static, _>(train::<AmpAutodiff>));
    let _policy = enter_config!(Config {
        preset: Preset::O0,
        ..scaling(Compute::Auto, LossScaleMode::Dynamic)
    });
    under(train::<AmpAutodiff>());
    let handle = loss_scale::<AmpAutodiff>(&here());
    assert_eq!((handle.steps(), handle.skipped_steps()), (50, 0));
}

#[test]
fn low_precision_training_ends_where_f32_training_ends() {
    fn ends_near(plain: &[f32]) {
        let (_, losses) = train::<AmpAutodiff>();
        assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        // Dropout draws the same masks; only rounding differs, which 50 steps of AdamW amplify.
        let (last, expected) = (losses[49], plain[49]);
        assert!(
            (last - expected).abs() < 0.1 * plain[0],
            "{last} and {expected}"
        );
    }

    let (_, plain) = train::<PlainAutodiff>();
    for_each_low_policy!(|| ends_near(&plain));
}

#[test]
fn a_weight_used_many_times_has_the_gradient_of_casts_by_hand_and_rounds_less() {
    let _policy = enter_config!(scaling(Compute::F16, LossScaleMode::Off));
    const USES: usize = 8;

    fn run<B: AutodiffBackend>(
        tanh_of_product: impl Fn(Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>,
    ) -> Vec<f32> {
        let values = |scale: f32| -> Tensor<B, 2> {
            Tensor::<B, 1, Int>::arange(0..16, &here())
                .float()
                .sin()
                .mul_scalar(scale)
                .reshape([4, 4])
        };
        let weight = values(0.7).require_grad();
        let mut x = values(1.0);
        for _ in 0..USES {
            x = tanh_of_product(x, weight.clone());
        }
        let grads = x.cast(DType::F32).sum().backward();
        weight.grad(&grads).unwrap().cast(DType::F32).values()
    }

    let amp = run::<AmpAutodiff>(|x, weight| x.matmul(weight).tanh());
    let by_hand = run::<PlainAutodiff>(|x, weight| {
        let product = x.cast(DType::F16).matmul(weight.cast(DType::F16));
        product.cast(DType::F32).tanh().cast(DType::F16)
    });
    // By hand the gradient of each use is rounded to F16 before they are added, here their sum is not rounded at all.
    let largest = by_hand
        .iter()
        .fold(0.0f32, |largest, x| largest.max(x.abs()));
    let tolerance = USES as f32 * burn::tensor::f16::EPSILON.to_f32() / 2.0 * largest;
    for (amp, by_hand) in amp.iter().zip(&by_hand) {
        assert!((amp - by_hand).abs() <= tolerance, "{amp}, {by_hand}");
    }
    assert_ne!(amp, by_hand);
}

#[test]
fn a_backend_of_amp_answers_as_the_plain_one() {
    assert!(AmpAutodiff::ad_enabled(&here()));
    assert!(!Amp::ad_enabled(&here()));
    assert!(Amp::sync(&here()).is_ok());
    assert_eq!(Amp::name(&here()), format!("amp<{}>", Plain::name(&here())));
    assert_eq!(Amp::device_count(0), Plain::device_count(0));
    for dtype in [DType::F16, DType::F64] {
        assert_eq!(
            Amp::dtype_usage(&here(), dtype),
            Plain::dtype_usage(&here(), dtype)
        );
    }
}

#[test]
fn seeding_and_dropout_draw_as_on_the_plain_backend() {
    let _policy = enter::<InF16>();
    fn dropped<B: AutodiffBackend>() -> Vec<f32> {
        B::seed(&here(), 11);
        let x = Tensor::<B, 1>::ones([64], &here());
        DropoutConfig::new(0.5).init().forward(x).values()
    }

    let amp = dropped::<AmpAutodiff>();
    assert_eq!(amp, dropped::<PlainAutodiff>());
    assert!(amp.contains(&0.0) && amp.contains(&2.0));
}
