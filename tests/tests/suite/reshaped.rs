//! Law: the statistics of a batch norm are those of plain Burn, in its shapes, and computed without a change of shape.

use std::cell::Cell;

use burn::{
    nn::{BatchNorm, BatchNormConfig},
    tensor::Tolerance,
};
use burn_amp_tests::{InForce, prelude::*};
use instrumented::{Instrument, Instrumented, Value};

const CHANNELS: usize = 16;

thread_local! {
    static FLATTENED: Cell<usize> = const { Cell::new(0) };
}

/// Counts the reshapes of as many elements as there are channels into fewer dimensions: a backend that fuses ends a kernel at each.
#[derive(Clone, Copy, Debug, Default)]
struct Flattened;

impl Instrument<Plain> for Flattened {
    type Seen = Option<Shape>;

    fn before<'a>(op: Op, mut operands: impl Iterator<Item = Value<'a, Plain>>) -> Option<Shape> {
        let shape = operands.find_map(|operand| Some(operand.meta()?.0));
        shape.filter(|shape| op == Op::float_reshape && shape.num_elements() == CHANNELS)
    }

    fn after<'a>(from: Option<Shape>, mut results: impl Iterator<Item = Value<'a, Plain>>) {
        let to = results.find_map(|result| Some(result.meta()?.0));
        let is_flattened = from
            .zip(to)
            .is_some_and(|(from, to)| to.num_dims() < from.num_dims());
        FLATTENED.set(FLATTENED.get() + usize::from(is_flattened));
    }
}

type Counted = Instrumented<Plain, Flattened>;

/// The images of a step, exact in every dtype, as a product in low precision leaves them.
fn images<B: Backend>(step: usize) -> Tensor<B, 4> {
    let value = |i: usize| ((i * 7919 + step * 104_729) % 255) as f32 / 64.0 - 1.0;
    let values: Vec<f32> = (0..8 * CHANNELS * 64).map(value).collect();
    let rows = Tensor::<B, 1>::from_floats(values.as_slice(), &here()).reshape([128, 64]);
    rows.matmul(Tensor::eye(64, &here()))
        .reshape([8, CHANNELS, 8, 8])
}

/// A batch norm after so many steps.
fn after<B: AutodiffBackend>(steps: usize) -> BatchNorm<B> {
    let norm = BatchNormConfig::new(CHANNELS).init::<B>(&here());
    for step in 0..steps {
        let grads = norm.forward(images::<B>(step)).sum().backward();
        assert!(norm.gamma.grad(&grads).is_some());
    }
    norm
}

/// The statistics as the program reads them, as a record has them, and what an inference makes of them.
fn read<B: AutodiffBackend>(norm: BatchNorm<B>) -> Vec<TensorData> {
    let valid = norm.valid();
    let inferred = valid.forward(images::<B::InnerBackend>(9));
    let state = [&norm.running_mean, &norm.running_var].map(|state| state.value_sync().into_data());
    let loaded = BatchNormConfig::new(CHANNELS)
        .init::<B>(&here())
        .load_record(norm.into_record());
    let record = [loaded.running_mean, loaded.running_var].map(|state| state.value().into_data());
    let results = state
        .into_iter()
        .chain(record)
        .chain([inferred.into_data()]);
    results.map(TensorData::convert::<f32>).collect()
}

fn statistics_are_burns() {
    for steps in [1, 2, 5] {
        let found = read(after::<AmpAutodiff>(steps));
        let expected = read(after::<PlainAutodiff>(steps));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.shape, expected.shape, "{steps} steps");
            // Sums of 512 numbers in F32 in another order; the images, at most 3 in size, are exact.
            let tolerance = Tolerance::<f32>::absolute(512.0 * 3.0 * f32::EPSILON);
            found.assert_approx_eq::<f32>(expected, tolerance);
        }
    }
}

#[test]
fn the_statistics_of_a_batch_norm_are_those_of_plain_burn() {
    within::<UnscaledF16, _>(statistics_are_burns);
}

/// The reshapes of statistics in a step's forward pass, after some steps.
fn flattened<B: AutodiffBackend>() -> usize {
    let norm = after::<B>(3);
    let images = images::<B>(3);
    FLATTENED.set(0);
    let _ = norm.forward(images);
    FLATTENED.take()
}

#[test]
fn a_batch_norm_computes_its_statistics_in_one_shape() {
    within::<UnscaledF16, _>(|| {
        assert_eq!(
            flattened::<burn_amp::Autodiff<burn_amp::Amp<Counted, InForce>>>(),
            0
        );
    });
    // Plain Burn's are what this law does not let through.
    assert!(flattened::<burn::backend::Autodiff<Counted>>() > 0);
}

#[test]
fn a_running_mean_is_not_reshaped_to_find_that_it_has_no_gradient() {
    type Trained = burn_amp::Autodiff<burn_amp::Amp<Counted, InForce>>;
    within::<UnscaledF16, _>(|| {
        let norm = after::<Trained>(3);
        let mut grads = norm.forward(images::<Trained>(3)).sum().backward();
        let mean = norm.running_mean.value_sync();
        FLATTENED.set(0);
        assert!(mean.grad(&grads).is_none());
        assert!(mean.grad_remove(&mut grads).is_none());
        assert_eq!(FLATTENED.take(), 0);
        // One that a program has stored is found.
        let stored = Tensor::ones([CHANNELS], &here());
        mean.grad_replace(&mut grads, stored.clone());
        let found = mean.grad(&grads).map(Tensor::into_data);
        assert_eq!(found, Some(stored.into_data()));
    });
}

/// A loop whose state is reshaped in each turn, from a tensor in low precision, and whose result is read in the backward pass; its
/// gradient.
fn looped<B: AutodiffBackend>() -> TensorData {
    let values: Vec<f32> = (0..2048).map(|i| (i % 31) as f32 / 32.0).collect();
    let leaf = Tensor::<B, 1>::from_floats(values.as_slice(), &here()).require_grad();
    let low = leaf
        .clone()
        .reshape([32, 64])
        .matmul(Tensor::eye(64, &here()));
    let mut state = low.exp();
    for _ in 0..5000 {
        let row = state.reshape([2048]) * 1.000_001;
        state = (row + 0.001).reshape([32, 64]);
    }
    let gradient = leaf.grad(&state.sqrt().sum().backward()).unwrap();
    gradient.into_data().convert::<f32>()
}

#[test]
fn a_loop_that_reshapes_its_state_is_not_computed_again_from_its_beginning() {
    let expected = looped::<PlainAutodiff>();
    let found = within::<UnscaledF16, _>(looped::<AmpAutodiff>);
    // The operand of the exponential is rounded, and so is the gradient of the product: once each, of at most e.
    let epsilon = Precision::F16.epsilon() as f32;
    found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(3.0 * 3.0 * epsilon));
}
