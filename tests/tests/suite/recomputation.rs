//! Law: chains of F32 ops on operands in low precision are recomputed in the backward pass, with the bits of kept
//! ones.

use burn_amp_tests::prelude::*;

policy!(
    /// The gradients of these tests are large enough for F16.
    Unscaled,
    scaling(Compute::F16, LossScaleMode::Off)
);

/// A tensor of more elements than the smallest that is recomputed.
fn noise<B: AutodiffBackend>(device: &B::Device) -> Tensor<B, 2> {
    let values: Vec<_> = (0..64 * 64)
        .map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0)
        .collect();
    Tensor::<B, 1>::from_floats(values.as_slice(), device).reshape([64, 64])
}

/// The gradient of a leaf through an activation in low precision.
fn gradient<B: AutodiffBackend>(chain: impl Fn(Tensor<B, 2>) -> Tensor<B, 2>) -> Vec<f32> {
    let leaf = noise::<B>(&here()).require_grad();
    let low = leaf.clone().matmul(Tensor::eye(64, &here()));
    let grads = chain(low).sum().backward();
    let gradient = leaf.grad(&grads).unwrap();
    gradient.into_data().convert::<f32>().to_vec().unwrap()
}

/// A step of which each result is read twice, so that the number of paths through a chain of them doubles.
fn step<B: AutodiffBackend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    x.clone() + x.exp() * 0.125
}

#[test]
fn a_chain_of_any_length_is_walked_in_the_time_of_its_ops() {
    let _policy = enter::<Unscaled>();
    // With a path for each way through the chain, this would take 2^200 steps.
    let long = gradient::<AmpAutodiff>(|x| (0..200).fold(x * 0.01 - 8.0, |x, _| step(x)));
    assert!(long.iter().all(|x| x.is_finite()));
}

#[cfg(not(feature = "fusion"))]
#[test]
fn burns_gradient_checkpointing_around_a_chain_gives_the_same_bits() {
    let _policy = enter::<Unscaled>();
    use burn::{
        backend::autodiff::checkpoint::strategy::BalancedCheckpointing, tensor::activation::tanh,
    };

    type Checkpointed = burn_amp::Autodiff<burn_amp_tests::Amp, BalancedCheckpointing>;

    fn chain<B: AutodiffBackend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
        let mean = x.clone().mean_dim(1);
        let centered = x - mean;
        let variance = centered.clone().square().mean_dim(1);
        let normal = centered / (variance + 1e-5).sqrt();
        tanh(normal.clone()) * normal.exp()
    }

    let kept = gradient::<AmpAutodiff>(chain);
    assert!(kept.iter().any(|x| *x != 0.0));
    assert!(gradient::<Checkpointed>(chain) == kept);
}
