//! Law: the scores of attention that is composed of single ops are scaled and masked by the softmax, and are Burn's
//! for other readers.

use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn_amp_tests::{
    near::{Named, assert_near},
    prelude::*,
};

/// Items, heads, positions, and the width of a head, whose root is no power of two.
const SHAPE: [usize; 4] = [2, 2, 32, 8];

/// `[1, 1, query, key]`: true where a key comes after the query.
fn future<B: Backend>(device: &B::Device) -> Tensor<B, 4, Bool> {
    Tensor::<B, 2, Bool>::tril_mask([SHAPE[2]; 2], 0, device).unsqueeze()
}

/// `[item, 1, 1, key]`: the second item is shorter than the first.
fn padding<B: Backend>(device: &B::Device) -> Tensor<B, 4, Bool> {
    let keys = Tensor::<B, 1, Int>::arange(0..SHAPE[2] as i64, device);
    let [first, second] =
        [SHAPE[2], 20].map(|length| keys.clone().greater_equal_elem(length as i64));
    Tensor::stack::<2>(vec![first, second], 0).unsqueeze_dims(&[1, 2])
}

/// A way from the product of queries and keys to a number.
type Way<B> = fn(Tensor<B, 4>) -> Tensor<B, 4>;

fn ways<B: Backend>() -> Vec<(&'static str, Way<B>)> {
    vec![
        ("divided", |x| softmax(x / 8f32.sqrt(), 3)),
        ("multiplied", |x| softmax(x * 0.3, 3)),
        ("by a power of two", |x| softmax(x / 4.0, 3)),
        ("masked", |x| {
            let mask = future(&x.device());
            softmax(x.mask_fill(mask, f32::NEG_INFINITY), 3)
        }),
        ("scaled and masked", |x| {
            let mask = future(&x.device());
            softmax((x / 8f32.sqrt()).mask_fill(mask, f32::NEG_INFINITY), 3)
        }),
        ("two masks", |x| {
            let (future, padding) = (future(&x.device()), padding(&x.device()));
            let x = (x / 8f32.sqrt()).mask_fill(padding, -1e4);
            softmax(x.mask_fill(future, -1e4), 3)
        }),
        ("two masks of two values", |x| {
            let (future, padding) = (future(&x.device()), padding(&x.device()));
            let x = (x / 8f32.sqrt()).mask_fill(padding, -1e4);
            softmax(x.mask_fill(future, -2e4), 3)
        }),
        ("masked, then scaled", |x| {
            let mask = future(&x.device());
            softmax(x.mask_fill(mask, -1e4) / 8f32.sqrt(), 3)
        }),
        ("over another dimension", |x| {
            let mask = future(&x.device());
            softmax((x / 8f32.sqrt()).mask_fill(mask, -1e4), 1)
        }),
        ("filled with zeros", |x| {
            let mask = future(&x.device());
            softmax((x / 8f32.sqrt()).mask_fill(mask, 0.0), 3)
        }),
        ("a second reader", |x| {
            let mask = future(&x.device());
            let scores = (x / 8f32.sqrt()).mask_fill(mask, -1e4);
            softmax(scores.clone(), 3) + scores * 1e-4
        }),
        ("another reader", |x| {
            let mask = future(&x.device());
            (x / 8f32.sqrt()).mask_fill(mask, -1e4) * 1e-4
        }),
        ("logarithm", |x| {
            let mask = future(&x.device());
            softmax((x / 8f32.sqrt()).mask_fill(mask, -40.0), 3).log() * 0.01
        }),
    ]
}

/// Reproducible values in [-2, 2).
fn noise<B: Backend>(seed: usize, device: &B::Device) -> Tensor<B, 4> {
    let count = SHAPE.iter().product::<usize>();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 7919 + seed * 104_729) % 4093) as f32 / 1023.25 - 2.0)
        .collect();
    Tensor::from_data(TensorData::new(values, SHAPE), device)
}

/// The values of a way, and the gradients of queries and keys.
fn outcome<B: AutodiffBackend>(way: Way<B>) -> Named {
    let [q, k] = [1, 2].map(|seed| noise::<B>(seed, &here()).require_grad());
    let y = way(q.clone().matmul(k.clone().transpose()));
    let z = y.clone().matmul(noise(3, &here()));
    let mut grads = z.square().mean().backward();
    let mut gradient = |x: &Tensor<B, 4>| x.grad_remove(&mut grads).unwrap().into_data();
    vec![
        ("values".to_owned(), y.clone().into_data()),
        ("queries".to_owned(), gradient(&q)),
        ("keys".to_owned(), gradient(&k)),
    ]
}

fn every_way_is_near() {
    let plain_ways = ways::<PlainAutodiff>();
    for ((name, way), (_, plain_way)) in ways::<AmpAutodiff>().into_iter().zip(plain_ways) {
        println!("{name}");
        let expected = outcome::<PlainAutodiff>(plain_way);
        // Operands, product, probabilities and gradients are rounded once each, by half an epsilon.
        assert_near(&outcome::<AmpAutodiff>(way), &expected, 8.0 * epsilon());
    }
}

#[test]
fn every_way_is_near_f32() {
    for_each_low_policy!(every_way_is_near);
}

/// Burn's gradient checkpointing computes the scores again, with the same bits.
#[test]
fn every_way_can_be_computed_again() {
    let _policy = enter::<InF16>();
    type Recomputed = burn_amp::Autodiff<Amp, BalancedCheckpointing>;
    let recomputed_ways = ways::<Recomputed>();
    for ((name, way), (_, recomputed_way)) in ways::<AmpAutodiff>().into_iter().zip(recomputed_ways)
    {
        let (stored, recomputed) = (
            outcome::<AmpAutodiff>(way),
            outcome::<Recomputed>(recomputed_way),
        );
        assert_eq!(stored, recomputed, "{name}");
    }
}

/// Outside a graph, as in an evaluation.
#[test]
fn without_a_graph_the_values_are_the_same() {
    let _policy = enter::<InF16>();
    type Valid = Amp;
    for ((name, way), (_, tracked_way)) in ways::<Valid>().into_iter().zip(ways::<AmpAutodiff>()) {
        let [q, k] = [1, 2].map(|seed| noise::<Valid>(seed, &here()));
        let found = way(q.matmul(k.transpose())).into_data();
        assert_eq!(found, outcome(tracked_way)[0].1, "{name}");
    }
}
