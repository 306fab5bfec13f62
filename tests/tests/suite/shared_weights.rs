//! Law: the gradients of all uses of a weight are added, of each loss its own, whatever other weights and other
//! threads do.
//!
//! All numbers are small multiples of 1/4, so that every sum is exact in F32 in any order.

use burn::tensor::module::linear;
use burn_amp_tests::{
    prelude::*,
    trace::{Trace, calls},
};

type B = AmpAutodiff;

/// The inputs and outputs of the weight.
const SHAPE: [usize; 2] = [16, 24];

/// Multiples of 1/4 from -1 to 1, different for each `seed`.
fn quarters(shape: [usize; 2], seed: usize) -> Vec<f32> {
    (0..shape[0] * shape[1])
        .map(|i| ((i * 7 + seed * 5 + i * seed) % 9) as f32 / 4.0 - 1.0)
        .collect()
}

fn tensor<B: AutodiffBackend>(shape: [usize; 2], seed: usize) -> Tensor<B, 2> {
    Tensor::from_data(TensorData::new(quarters(shape, seed), shape), &here())
}

/// The gradients of the weight and of the bias of a use whose input and whose gradient have these seeds.
fn expected(rows: usize, seeds: [usize; 2]) -> [Vec<f64>; 2] {
    let [k, n] = SHAPE;
    let (x, c) = (quarters([rows, k], seeds[0]), quarters([rows, n], seeds[1]));
    let at = |i: usize, j: usize| {
        (0..rows)
            .map(|row| f64::from(x[row * k + i]) * f64::from(c[row * n + j]))
            .sum()
    };
    let weight = (0..k * n).map(|e| at(e / n, e % n)).collect();
    let column = |j: usize| (0..rows).map(|row| f64::from(c[row * n + j])).sum();
    [weight, (0..n).map(column).collect()]
}

fn add(sum: &mut [f64], terms: &[f64]) {
    for (sum, term) in sum.iter_mut().zip(terms) {
        *sum += term;
    }
}

#[track_caller]
fn assert_exact<B: AutodiffBackend, const D: usize>(
    what: &str,
    leaf: &Tensor<B, D>,
    grads: &B::Gradients,
    expected: &[f64],
) {
    let gradient = leaf.grad(grads).expect("the leaf has a gradient");
    assert_eq!(gradient.dtype(), DType::F32, "{what}");
    let values: Vec<f32> = gradient.values();
    let values: Vec<_> = values.into_iter().map(f64::from).collect();
    assert_eq!(values, expected, "{what}");
}

/// A weight and two biases.
struct Leaves<B: AutodiffBackend> {
    weight: Tensor<B, 2>,
    biases: [Tensor<B, 1>; 2],
}

impl<B: AutodiffBackend> Leaves<B> {
    fn new() -> Self {
        let bias = |seed| tensor([1, SHAPE[1]], seed).reshape([-1]).require_grad();
        Self {
            weight: tensor(SHAPE, 1).require_grad(),
            biases: [bias(2), bias(3)],
        }
    }

    /// A term of the loss: a use of the weight, whose gradient has a seed.
    fn read(&self, rows: usize, seeds: [usize; 2], bias: Option<Tensor<B, 1>>) -> Tensor<B, 1> {
        let x = tensor([rows, SHAPE[0]], seeds[0]);
        let y = linear(x, self.weight.clone(), bias);
        (y * tensor([rows, SHAPE[1]], seeds[1])).sum()
    }
}

fn sum<B: AutodiffBackend>(terms: impl IntoIterator<Item = Tensor<B, 1>>) -> Tensor<B, 1> {
    let sum = terms.into_iter().reduce(|sum, term| sum + term);
    sum.expect("there is a term")
}

fn every_number_of_uses() {
    for uses in [1, 2, 3, 16, 17, 18, 40] {
        let leaves = Leaves::<B>::new();
        let [mut weight, mut bias] = expected(0, [0, 0]);
        // Of different batches.
        let terms = (0..uses).map(|use_| {
            let (rows, seeds) = (1 + use_ % 4, [use_, use_ + 3]);
            let [of_weight, of_bias] = expected(rows, seeds);
            add(&mut weight, &of_weight);
            add(&mut bias, &of_bias);
            leaves.read(rows, seeds, Some(leaves.biases[0].clone()))
        });
        let grads = sum(terms.collect::<Vec<_>>()).backward();
        let what = format!("{uses} uses");
        assert_exact(&what, &leaves.weight, &grads, &weight);
        assert_exact(&what, &leaves.biases[0], &grads, &bias);
    }
}

#[test]
fn the_gradients_of_all_uses_are_added() {
    under_each!(every_number_of_uses, InBf16, UnscaledF16);
}

#[test]
fn a_pass_takes_the_uses_of_its_loss() {
    let _policy = enter::<UnscaledF16>();
    let leaves = Leaves::<B>::new();
    let read = |seed: usize| leaves.read(4, [seed, seed + 1], None);
    let expected = |seeds: std::ops::Range<usize>| {
        seeds.fold(vec![0.0; SHAPE[0] * SHAPE[1]], |mut sum, seed| {
            add(&mut sum, &expected(4, [seed, seed + 1])[0]);
            sum
        })
    };
    let first = sum((0..3).map(read).collect::<Vec<_>>());
    // Of no loss.
    let _unused = read(3);
    let second = sum((4..9).map(read).collect::<Vec<_>>());
    let grads = second.backward();
    assert_exact("the second loss", &leaves.weight, &grads, &expected(4..9));
    let grads = first.backward();
    assert_exact("the first loss", &leaves.weight, &grads, &expected(0..3));
}

#[test]
fn each_bias_gets_its_gradient() {
    let _policy = enter::<UnscaledF16>();
    let leaves = Leaves::<B>::new();
    let columns = SHAPE[1];
    let mut of_biases = [vec![0.0; columns], vec![0.0; columns]];
    let terms: Vec<_> = (0..24)
        .map(|seed| {
            let [_, of_bias] = expected(4, [seed, seed + 1]);
            let [first, second] = &leaves.biases;
            // In turn: a bias, none, another one, and one that is computed.
            let bias = match seed % 4 {
                0 => Some(first.clone()),
                1 => None,
                2 => Some(second.clone()),
                _ => Some(second.clone() * 2.0),
            };
            let place = usize::from(seed % 4 >= 2);
            let times = [1.0, 0.0, 1.0, 2.0][seed % 4];
            let of_bias: Vec<_> = of_bias.iter().map(|x| x * times).collect();
            add(&mut of_biases[place], &of_bias);
            leaves.read(4, [seed, seed + 1], bias)
        })
        .collect();
    let grads = sum(terms).backward();
    for (bias, expected) in leaves.biases.iter().zip(&of_biases) {
        assert_exact("a bias", bias, &grads, expected);
    }
}

/// The gradients of both biases and the weight, in a program that adds the biases to products itself: alone, and where the
/// product, the bias or both have other readers.
fn added_by_the_program<B: AutodiffBackend>() -> [Vec<f32>; 3] {
    let leaves = Leaves::<B>::new();
    let row = |at: usize| leaves.biases[at].clone().unsqueeze::<2>();
    let terms = (0..48).map(|seed| {
        let factors = |other| tensor([4, SHAPE[1]], seed + other);
        let product = tensor([4, SHAPE[0]], seed).matmul(leaves.weight.clone());
        let first = row(seed % 2);
        let sum = product.clone() + first.clone();
        let term = (sum * factors(1)).sum();
        match seed / 2 % 6 {
            0 => term + (product * factors(2)).sum(),
            1 => term + (first * tensor([1, SHAPE[1]], seed)).sum(),
            2 => term + ((product + row(1 - seed % 2)) * factors(2)).sum(),
            3 => term + ((product + first) * factors(2)).sum(),
            _ => term,
        }
    });
    let grads = sum(terms.collect::<Vec<_>>()).backward();
    let [first, second] = &leaves.biases;
    [
        first.grad(&grads).unwrap().values(),
        second.grad(&grads).unwrap().values(),
        leaves.weight.grad(&grads).unwrap().values(),
    ]
}

fn are_those_of_the_plain_backend() {
    let expected = added_by_the_program::<PlainAutodiff>();
    assert_eq!(added_by_the_program::<B>(), expected);
}

#[test]
fn biases_that_the_program_adds_get_their_gradients() {
    under_each!(are_those_of_the_plain_backend, InBf16, UnscaledF16);
}

/// What a program finds out about a row of a bias, which has no node until somebody reads it otherwise than as a bias.
fn row_of_a_bias<B: AutodiffBackend>() -> (bool, bool, [Vec<f32>; 4]) {
    let leaves = Leaves::<B>::new();
    let [bias, _] = leaves.biases;
    let row = bias.clone().unsqueeze::<2>();
    let doubled = row.clone() * 2.0;
    let own = row.clone().detach().require_grad();
    let column = row.clone().reshape([SHAPE[1]]);
    let [constant, same] = [row.clone().detach().reshape([-1]), column.clone().detach()];
    assert!(
        ![column.clone(), constant.clone(), same.clone()]
            .iter()
            .any(Tensor::is_require_grad)
    );
    let loss = (doubled * own.clone()).sum()
        + row.clone().slice([0..1, 2..4]).sum()
        + (column.clone() * constant * same).sum();
    let grads = loss.backward();
    let has_gradient = row.grad(&grads).is_some() || column.grad(&grads).is_some();
    let read = [
        row.clone().into_data(),
        row.clone().inner().into_data(),
        bias.grad(&grads).unwrap().into_data(),
        own.grad(&grads).unwrap().into_data(),
    ];
    let read = read.map(|data| data.to_vec().expect("F32"));
    (row.is_require_grad(), has_gradient, read)
}

fn is_the_row_of_the_plain_backend() {
    assert_eq!(row_of_a_bias::<B>(), row_of_a_bias::<PlainAutodiff>());
}

#[test]
fn a_row_of_a_bias_is_no_leaf() {
    under_each!(is_the_row_of_the_plain_backend, InBf16, UnscaledF16);
}

/// The distance of a tensor's node from the leaves.
fn level(tensor: &Tensor<B, 2>) -> usize {
    let tensor = tensor.clone().into_primitive().tensor();
    tensor.into_inner().node.order
}

fn one_node_for_a_product() {
    let leaves = Leaves::<B>::new();
    let x = tensor::<B>([4, SHAPE[0]], 1).require_grad() * 2.0;
    let before = level(&x);
    let product = linear(x, leaves.weight.clone(), None);
    // The second one casts the product to the dtype that the program sees.
    assert_eq!(level(&product) - before, 2);
}

#[test]
fn a_product_takes_the_place_of_the_casts_of_its_operands() {
    under_each!(one_node_for_a_product, InBf16, UnscaledF16);
}

type Traced = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, InF16>>;

/// The products that a backward pass computes.
fn products_of(loss: Tensor<Traced, 1>) -> usize {
    let is_product = |(op, _): &(Op, Vec<DType>)| *op == Op::float_matmul;
    let made = calls(|| {
        let _ = loss.backward();
    });
    made.iter().filter(|call| is_product(call)).count()
}

/// The products that the backward pass of `uses` uses, of `rows` rows each, computes.
fn products(uses: usize, rows: usize) -> usize {
    let leaves = Leaves::<Traced>::new();
    let terms = (0..uses).map(|seed| leaves.read(rows, [seed, seed], None));
    products_of(sum(terms.collect::<Vec<_>>()))
}

/// The sums that the backward pass of `uses` uses computes, with a bias that the program adds.
fn sums_with_bias(uses: usize) -> usize {
    let leaves = Leaves::<Traced>::new();
    let terms = (0..uses).map(|seed| {
        let product = tensor([4, SHAPE[0]], seed).matmul(leaves.weight.clone());
        let sum = product + leaves.biases[0].clone().unsqueeze::<2>();
        (sum * tensor([4, SHAPE[1]], seed)).sum()
    });
    let loss = sum(terms.collect::<Vec<_>>());
    let made = calls(|| {
        let _ = loss.backward();
    });
    let is_sum = |(op, _): &&(Op, Vec<DType>)| *op == Op::float_sum_dim;
    made.iter().filter(is_sum).count()
}

#[test]
fn the_columns_of_sixteen_uses_are_added_at_once() {
    for (uses, expected) in [(1, 1), (2, 2), (17, 2), (18, 3), (40, 4)] {
        assert_eq!(sums_with_bias(uses), expected, "{uses} uses");
    }
}

#[test]
fn a_product_computes_the_gradients_of_sixteen_uses_of_few_rows() {
    for (uses, expected) in [(1, 1), (2, 2), (17, 2), (18, 3), (40, 4)] {
        assert_eq!(products(uses, 4), expected, "{uses} uses");
    }
    // Operands of 80 bytes per row wait until they take more memory than four gradients, 6144 bytes: three uses.
    assert_eq!(products(10, 38), 1 + 3);
    // Where it costs more to copy the operands than to add the gradient, they are not.
    assert_eq!(products(10, 39), 10);
}

#[test]
fn a_weight_that_is_used_no_more_does_not_keep_another_one_waiting() {
    const USES: usize = 10;

    let weight = |seed| tensor::<Traced>([16, 16], seed).require_grad();
    let [first, second] = [weight(1), weight(2)];
    let repeated =
        |x, weight: &Tensor<Traced, 2>| (0..USES).fold(x, |x, _| linear(x, weight.clone(), None));
    let x = repeated(tensor([32, 16], 3), &first);
    let y = repeated(x.slice([0..4, 0..16]), &second);
    // All inputs but the first have a gradient. Nine uses of the second weight wait, with 256 bytes each, when those of the
    // first one come, with 2048: three fill the 8192 bytes of two weights, and then three the 4096 of one.
    let of_inputs = 2 * USES - 1;
    let of_weights = (1 + 1) + (1 + 3);
    assert_eq!(products_of(y.sum()), of_inputs + of_weights);
}

/// The gradients of a recurrent net's weights, whose bits depend on the order of all sums. `between` runs after each step.
fn recurrent<B: AutodiffBackend>(seed: usize, between: impl Fn()) -> Vec<f32> {
    let weights = [1, 2].map(|weight| {
        let values = tensor::<B>([24, 24], seed + weight) * 0.37;
        values.require_grad()
    });
    let mut state = tensor::<B>([4, 24], seed + 3) * 0.77;
    for step in 0..20 {
        let input = tensor::<B>([4, 24], seed + step) * 0.61;
        let [a, b] = weights.clone();
        state = (linear(state, a, None) + linear(input, b, None)).tanh();
        between();
    }
    let grads = state.sum().backward();
    let values = weights.map(|weight| weight.grad(&grads).expect("a gradient").into_data());
    let values = values.map(|data| data.convert::<f32>().to_vec().expect("read as F32"));
    values.concat()
}

/// What is computed together is decided by the uses of the weight alone.
#[test]
fn gradients_do_not_depend_on_the_passes_of_other_weights() {
    let _policy = enter::<UnscaledF16>();
    let alone: Vec<_> = (0..4).map(|seed| recurrent::<B>(seed, || {})).collect();
    let other = || {
        let weight = tensor::<B>(SHAPE, 5).require_grad();
        weight.clone().matmul(weight.transpose()).sum().backward();
    };
    assert_eq!(recurrent::<B>(0, other), alone[0]);
    let threads = [0, 1, 2, 3]
        .map(|seed| std::thread::spawn(move || [(); 4].map(|()| recurrent::<B>(seed, || {}))));
    for (thread, alone) in threads.into_iter().zip(&alone) {
        for found in thread.join().expect("a thread that computes") {
            assert!(found == *alone);
        }
    }
}
