//! Law: `saved = "8bit"` keeps eight bits of what is large, is no parameter, and is read by a backward pass; values stay the same
//! bits, and gradients are near.

use burn::tensor::{
    activation::{silu, tanh},
    module::attention,
};
use burn_amp::{config::Saved, scaling::Gradients};

use burn_amp_tests::prelude::*;

policy!(
    /// F16, which every device has; the gradients of these tests need no scale.
    Whole,
    scaling(Compute::F16, LossScaleMode::Check)
);
policy!(
    /// The same, and a graph keeps eight bits.
    EightBits,
    changed(scaling(Compute::F16, LossScaleMode::Check), |it| it.saved = Saved::EightBits)
);

/// The bits of the result of a block, and the gradients of its input and its parameters. The input has `rows` rows of 64, and the
/// parameters have 8192 elements each.
fn computed<P: ConfigSource>(rows: usize) -> (Vec<f32>, Vec<Vec<f32>>) {
    type B<P> = burn_amp::Autodiff<burn_amp::Amp<Plain, P>>;
    let leaf = |shape: [usize; 2], seed: u64| {
        B::<P>::seed(&here(), seed);
        let noise = Distribution::Normal(0.0, 0.3);
        Tensor::<B<P>, 2>::random(shape, noise, &here()).require_grad()
    };
    let (x, up, down) = (leaf([rows, 64], 1), leaf([64, 128], 2), leaf([64, 128], 3));
    let hidden = gelu(x.clone().matmul(up.clone()));
    // A view of a parameter is a parameter.
    let output = hidden.matmul(down.clone().transpose());
    let values = output.to_data();
    let weights = Tensor::<B<P>, 1, Int>::arange(0..64, &here()).float() / 32.0;
    let grads = (output * weights.unsqueeze()).sum().backward();
    let gradients = [x, up, down].map(|leaf| leaf.grad(&grads).unwrap().into_data());
    let list = |data: TensorData| data.convert::<f32>().to_vec().unwrap();
    (list(values), gradients.map(list).into())
}

#[test]
fn what_is_large_is_kept_in_eight_bits_and_parameters_are_kept_whole() {
    // The activations have 128 elements a row: below 4096, only parameters would be large enough.
    let [small, large] = [31, 32];
    assert_eq!(computed::<EightBits>(small), computed::<Whole>(small));
    let (values, found) = computed::<EightBits>(large);
    let (expected, whole) = computed::<Whole>(large);
    assert_eq!(values, expected);
    for (found, whole) in found.iter().zip(&whole) {
        assert_ne!(found, whole, "the backward pass reads eight bits");
        let dot = |a: &[f32], b: &[f32]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum()
        };
        let cosine = dot(found, whole) / (dot(found, found) * dot(whole, whole)).sqrt();
        assert!(cosine > 0.9999, "{cosine}");
    }
}

/// What an op makes of a tensor of 64 rows of 128 numbers, which is the result of another op.
type OpOf<B> = fn(Tensor<B, 2>) -> Tensor<B, 2>;

/// The ops whose nodes keep eight bits, and how far their gradients may be off, over their norm: a few times what was measured.
fn budgets<B: AutodiffBackend>() -> Vec<(&'static str, OpOf<B>, f64)> {
    vec![
        ("gelu", gelu, 0.01),
        ("silu", |x| silu(x), 0.01),
        ("sigmoid", sigmoid, 0.01),
        ("tanh", tanh, 0.02),
        // In low precision, as a product reads it.
        (
            "softmax",
            |x| softmax(x, 1).matmul(Tensor::eye(128, &here())),
            0.03,
        ),
        ("relu", relu, 0.0),
        ("clamp", |x| x.clamp(-0.5, 0.5), 0.0),
        (
            "matmul",
            |x| x.clone().matmul(x.clone().transpose()).matmul(x),
            0.03,
        ),
        (
            "layer_norm",
            |x| LayerNormConfig::new(128).init(&here()).forward(x),
            0.02,
        ),
        (
            "batch_norm and relu",
            |x| {
                let norm = BatchNormConfig::new(4).init(&here());
                let x = norm.forward(x.reshape([8, 4, 16, 16]));
                relu(x).reshape([64, 128])
            },
            0.02,
        ),
        (
            "attention",
            |x| {
                let x: Tensor<B, 4> = x.reshape([4, 4, 16, 32]);
                attention(x.clone(), x.clone(), x, None, None, Default::default())
                    .reshape([64, 128])
            },
            0.03,
        ),
    ]
}

#[test]
fn the_gradient_of_each_op_stays_within_its_budget() {
    fn gradients<P: ConfigSource>() -> Vec<(&'static str, f64, Vec<f64>)> {
        type B<P> = burn_amp::Autodiff<burn_amp::Amp<Plain, P>>;
        let of = |(name, op, budget): (_, OpOf<B<P>>, _)| {
            B::<P>::seed(&here(), 4);
            let draw = || {
                let noise = Distribution::Normal(0.0, 1.0);
                Tensor::<B<P>, 2>::random([64, 128], noise, &here())
            };
            let (x, weight) = (draw().require_grad(), draw().slice(0..1) / 8.0);
            let eye = Tensor::<B<P>, 2>::eye(128, &here());
            let output = op(x.clone().matmul(eye));
            let grads = (output * weight).sum().backward();
            let gradient = x.grad(&grads).unwrap().into_data();
            (name, budget, gradient.iter::<f64>().collect())
        };
        budgets().into_iter().map(of).collect()
    }
    let (found, whole) = (gradients::<EightBits>(), gradients::<Whole>());
    for ((name, budget, found), (.., whole)) in found.iter().zip(&whole) {
        let pairs = found.iter().zip(whole);
        let distance: f64 = pairs.map(|(found, whole)| (found - whole).powi(2)).sum();
        let norm: f64 = whole.iter().map(|x| x * x).sum();
        let off = (distance / norm).sqrt();
        assert_eq!(
            off > 0.0,
            *budget > 0.0,
            "{name}: whether eight bits are read"
        );
        assert!(
            off <= *budget,
            "{name}: the gradient is off by {off} of its norm"
        );
    }
}

#[test]
fn an_overflow_in_what_is_kept_is_found() {
    type B = burn_amp::Autodiff<burn_amp::Amp<Plain, EightBits>>;
    let x = Tensor::<B, 2>::full([64, 64], 300.0, &here()).require_grad();
    let large = x.clone().matmul(x.clone());
    let grads: Gradients<Plain> = large.matmul(x.clone()).sum().backward();
    assert_eq!(grads.outcome(), Outcome::Overflowed);
}

#[test]
fn eight_bits_under_a_policy_that_lowers_nothing_are_refused() {
    let config = changed(computing_in(Compute::F32), |it| it.saved = Saved::EightBits);
    let error = config.validate().unwrap_err().to_string();
    assert!(
        error.contains("compute auto or bf16 or f16 with saved 8bit"),
        "{error}"
    );
}
