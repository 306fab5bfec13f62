//! Law: no activation and no evaluated weight is lowered twice.

use burn::nn::{Lstm, LstmConfig};
use burn_amp_tests::{
    prelude::*,
    trace::{Trace, calls},
};

policy!(
    /// The gradients of these tests are large enough for F16.
    Unscaled,
    scaling(Compute::F16, LossScaleMode::Off)
);

/// F16 has 11 bits.
const EPSILON: f32 = 1.0 / 1024.0;

type Traced = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, InF16>>;

/// The casts from one dtype to another that `f` makes.
fn casts(from: DType, to: DType, f: impl FnOnce()) -> usize {
    let is_cast = |(op, dtypes): &(Op, Vec<DType>)| *op == Op::float_cast && *dtypes == [from, to];
    calls(f).iter().filter(|call| is_cast(call)).count()
}

#[test]
fn an_activation_is_lowered_once_for_all_its_readers() {
    let weight = || Tensor::<Traced, 2>::ones([4, 4], &here()).require_grad();
    let [x, q, k, v] = [weight(), weight(), weight(), weight()];
    let lowered = casts(DType::F32, DType::F16, || {
        let activation = x.exp();
        let [q, k, v] = [q, k, v].map(|weight| activation.clone().matmul(weight));
        let _ = q + k + v;
    });
    // The activation, and three weights.
    assert_eq!(lowered, 4);
}

#[test]
fn an_evaluation_lowers_each_weight_and_each_activation_once() {
    let model: Lstm<Traced> = LstmConfig::new(4, 4, true).init(&here());
    let model = model.valid();
    let x = Tensor::<burn_amp::Amp<Trace<Plain>, InF16>, 3>::ones([2, 1, 4], &here());
    let lowered = |steps| {
        casts(DType::F32, DType::F16, || {
            let _ = model.forward(x.clone().repeat_dim(1, steps), None);
        })
    };
    let first = lowered(1);
    // The input and the hidden state of a step, which four gates read; eight sums with a bias, and four activations.
    let of_a_step = 2 + 8 + 4;
    assert_eq!(lowered(1), of_a_step);
    assert_eq!(lowered(16), 16 * of_a_step);
    // The first batch lowers the two weights of four gates, too.
    assert_eq!(first, of_a_step + 8);
}

/// The gradient of a batch norm's input, for a gradient of its output with a large mean, which cancels.
fn input_gradient<B: AutodiffBackend>(device: &B::Device) -> Vec<f32> {
    const SHAPE: [usize; 4] = [4, 8, 8, 8];

    let noise = |seed: usize| {
        let elements = SHAPE.iter().product::<usize>();
        let values: Vec<_> = (0..elements)
            .map(|i| ((i * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0)
            .collect();
        Tensor::<B, 1>::from_floats(values.as_slice(), device).reshape(SHAPE)
    };
    let norm: BatchNorm<B> = BatchNormConfig::new(SHAPE[1]).init(device);
    let leaf = noise(1).require_grad();
    // Stored in low precision, as the output of a convolution is.
    let x = leaf
        .clone()
        .reshape([32, 64])
        .matmul(Tensor::eye(64, device));
    let y = norm.forward(x.reshape(SHAPE));
    let grads = (y * (noise(2) * 0.01 + 1.0)).sum().backward();
    let gradient = leaf.grad(&grads).unwrap();
    gradient.into_data().convert::<f32>().to_vec().unwrap()
}

#[test]
fn the_uses_of_a_low_activation_add_their_gradients_in_f32() {
    let _policy = enter::<Unscaled>();
    let expected = input_gradient::<PlainAutodiff>(&here());
    let actual = input_gradient::<AmpAutodiff>(&here());
    let norm = |values: Vec<f32>| values.iter().map(|x| x * x).sum::<f32>().sqrt();
    let error: Vec<_> = actual.iter().zip(&expected).map(|(a, b)| a - b).collect();
    let error = norm(error) / norm(expected);
    assert!(error < 0.05, "{error}");
}

/// The gradient of a layer norm's input, whose output `products` products and `others` ops in F32 read.
fn norm_gradient<B: AutodiffBackend>(products: usize, others: usize) -> Vec<f32> {
    const WIDTH: usize = 32;

    let noise = |seed: usize| {
        let values: Vec<_> = (0..WIDTH * WIDTH)
            .map(|i| ((i * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0)
            .collect();
        Tensor::<B, 1>::from_floats(values.as_slice(), &here()).reshape([WIDTH, WIDTH])
    };
    let norm: LayerNorm<B> = LayerNormConfig::new(WIDTH).init(&here());
    let leaf = noise(1).require_grad();
    let y = norm.forward(leaf.clone());
    let products = (0..products).map(|seed| y.clone().matmul(noise(seed)));
    let others = (0..others).map(|seed| y.clone().exp() * noise(seed));
    let read = products.chain(others).reduce(|sum, read| sum + read);
    let grads = (read.unwrap() * noise(9)).sum().backward();
    let gradient = leaf.grad(&grads).unwrap();
    gradient.into_data().convert::<f32>().to_vec().unwrap()
}

#[test]
fn a_layer_norm_adds_the_gradients_of_its_readers_in_any_dtype() {
    let _policy = enter::<Unscaled>();
    for (products, others) in [
        (1, 0),
        (3, 0),
        (6, 0),
        (0, 1),
        (0, 2),
        (1, 1),
        (3, 2),
        (6, 2),
    ] {
        let expected = norm_gradient::<ReferenceAutodiff>(products, others);
        let actual = norm_gradient::<AmpAutodiff>(products, others);
        let largest = expected.iter().fold(0f32, |max, x| max.max(x.abs()));
        let errors = actual.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let error = errors.fold(0f32, f32::max) / largest;
        // The operands of a product and its gradients are rounded by half an epsilon, at random.
        assert!(error < 2.0 * EPSILON, "{products} {others}: {error}");
    }
}

#[test]
fn a_layer_norm_writes_what_products_read() {
    let weight = || Tensor::<Traced, 2>::ones([4, 4], &here()).require_grad();
    let norm: LayerNorm<Traced> = LayerNormConfig::new(4).init(&here());
    let lowered = |products: usize| {
        let x = Tensor::<Traced, 2>::ones([4, 4], &here());
        let weights: Vec<_> = (0..products).map(|_| weight()).collect();
        casts(DType::F32, DType::F16, || {
            let y = norm.forward(x);
            for weight in weights {
                let _ = y.clone().matmul(weight);
            }
        })
    };
    // On this backend the copy is a cast. Beside it, there are those of the weights.
    assert_eq!([0, 1, 3].map(lowered), [1, 2, 4]);
}
