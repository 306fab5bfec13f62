//! Law: `saved = "8bit"` keeps eight bits of what is large, is no parameter, and is read by a backward pass; values stay the same
//! bits, and gradients are near.

use burn_amp::{config::Saved, scaling::Gradients};

use burn_amp_tests::prelude::*;

policy!(
    /// A graph keeps eight bits.
    EightBits,
    in_bf16(|it| it.saved = Saved::EightBits)
);
policy!(
    /// The same in F16.
    EightBitsInF16,
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
    assert_eq!(computed::<EightBits>(small), computed::<InBf16>(small));
    let (values, found) = computed::<EightBits>(large);
    let (expected, whole) = computed::<InBf16>(large);
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

#[test]
fn an_overflow_in_what_is_kept_is_found() {
    type B = burn_amp::Autodiff<burn_amp::Amp<Plain, EightBitsInF16>>;
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
