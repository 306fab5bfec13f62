//! Chains of sums and products with small factors, compared with the host in F64.

mod operands;

use burn_amp_kernels::affine::{self, Affine, Bounds, End, Group, MomentOf, Rest, Slope};

use self::operands::Operands;
use super::{
    prelude::*,
    rows::{self, Float, epsilon, read, tensor},
};

/// The shape of `x`, the grid, and the shapes of the factors in the order of [`Affine::factors`]; an empty shape is of none.
struct Case {
    shape: &'static [usize],
    grid: &'static [usize],
    factors: [&'static [usize]; 4],
}

/// Writes a table of cases, one in each line. A macro, because a table of structs would be formatted into several lines each.
macro_rules! cases {
    ($($shape:tt on $grid:tt by $before:tt $scale:tt $rescale:tt $after:tt;)+) => {
        [$(Case { shape: &$shape, grid: &$grid, factors: [&$before, &$scale, &$rescale, &$after] }),+]
    };
}

const CASES: [Case; 10] = cases! {
    // A batch norm, and one of odd sizes.
    [4, 8, 6, 8] on [4, 8, 6, 8] by [1, 8, 1, 1] [1, 8, 1, 1] [] [1, 8, 1, 1];
    [3, 5, 7, 3] on [3, 5, 7, 3] by [1, 5, 1, 1] [1, 5, 1, 1] [] [1, 1, 1, 1];
    // A group norm: the grid splits channels, and γ does not vary along the batch.
    [2, 6, 20] on [2, 3, 2, 20] by [2, 3, 1, 1] [2, 3, 2, 1] [] [1, 3, 2, 1];
    // A layer norm composed by hand, and an RMS norm.
    [6, 5, 32] on [6, 5, 32] by [6, 5, 1] [6, 5, 1] [1, 1, 32] [1, 1, 32];
    [30, 33] on [30, 33] by [] [30, 1] [1, 33] [];
    // A bias, and such a row in the other places: kernels that differ in which factor they have.
    [64, 16] on [64, 16] by [] [] [] [1, 16];
    [64, 16] on [64, 16] by [1, 16] [] [] [];
    [64, 16] on [64, 16] by [] [1, 16] [] [];
    [64, 16] on [64, 16] by [] [] [1, 16] [];
    [2, 4096] on [2, 4096] by [2, 1] [] [] [];
};

/// The dtypes of `x`: a chain in F64 is computed op by op.
fn dtypes() -> Vec<DType> {
    let mut dtypes = super::dtypes();
    dtypes.retain(|dtype| *dtype != DType::F64);
    dtypes
}

/// Numbers between -1 and 1, different for each seed.
fn noise(count: usize, seed: u32) -> Vec<f64> {
    rows::noise(count, seed)
        .into_iter()
        .map(|x| x / 4.0)
        .collect()
}

/// The place in a tensor of `shape` that is broadcast to the grid, of the grid's element `at`.
fn place(at: usize, grid: &[usize], shape: &[usize]) -> usize {
    let (mut rest, mut coordinates) = (at, vec![0; grid.len()]);
    for (dim, size) in grid.iter().enumerate().rev() {
        coordinates[dim] = rest % size;
        rest /= size;
    }
    let sizes = shape.iter().zip(coordinates);
    sizes.fold(0, |place, (size, at)| {
        place * size + if *size == 1 { 0 } else { at }
    })
}

/// All numbers here are below 8, so a few roundings in F32 cost less than 16 epsilons; the result is rounded once more.
fn assert_near(found: Float, expected: &[f64], terms: usize, what: &str) {
    let in_f32 = 16.0 * epsilon(DType::F32) * terms as f64;
    rows::assert_near(what, &found, expected, |_| in_f32);
}

/// Whether a chain divides, and how it ends. The first case has all of these forms, each of which is a kernel. Of the five functions
/// that only end a chain, another case has the one whose `turn` it is.
fn ends(is_first: bool, turn: usize) -> Vec<(bool, End)> {
    let clamps = [(-0.25, 0.5), (f32::NEG_INFINITY, 0.125)];
    let [clamp, clamp_max] = clamps.map(|(min, max)| End::Clamp(Bounds::new(min, max).unwrap()));
    let leaky_relu = End::LeakyRelu(Slope::new(0.3).unwrap());
    let functions = [leaky_relu, clamp, clamp_max, End::Sigmoid, End::Silu];
    let functions = match is_first {
        true => functions.to_vec(),
        false => vec![functions[turn % functions.len()]],
    };
    let ends = [End::Identity, End::Relu];
    let plain = ends.into_iter().chain(functions).map(|end| (false, end));
    plain.chain(ends.map(|end| (true, end))).collect()
}

fn each(test: impl Fn(&Operands, DType, &str)) {
    for (turn, dtype) in dtypes().into_iter().enumerate() {
        for (number, case) in CASES.iter().enumerate() {
            for (divides, end) in ends(number == 0, turn + number) {
                if divides && case.factors[1].is_empty() {
                    continue;
                }
                let what = format!("case {number} in {dtype:?}, divides {divides}, {end:?}");
                test(&Operands::new(case, dtype, divides, end), dtype, &what);
            }
        }
    }
}

#[test]
fn a_chain_is_computed_in_f32_and_rounded_once() {
    each(|operands, dtype, what| {
        let plus = noise(operands.values.len(), 9);
        let shape = operands.x.shape();
        let plus_tensor = tensor(&plus, shape.as_slice(), DType::F32);
        for to in [dtype, DType::F32] {
            for summand in [None, Some(plus_tensor.clone())] {
                let expected: Vec<f64> = (0..plus.len())
                    .map(|at| {
                        let plus = if summand.is_some() { plus[at] } else { 0.0 };
                        operands.ended(operands.chain(at) + plus)
                    })
                    .collect();
                let (x, affine) = (operands.x.clone(), operands.affine.clone());
                let found = affine::forward::<Plain>(x, affine, summand, to.into());
                let is = (found.dtype(), found.shape());
                assert_eq!(is, (to, shape.clone()), "{what}");
                assert_near(found, &expected, 1, what);
            }
        }
    });
}

#[test]
fn a_residual_block_and_its_gradients_are_those_of_the_host() {
    each(|operands, dtype, what| {
        if operands.affine.end == End::Relu {
            for to in [dtype, DType::F32] {
                residual_block(operands, to, &format!("{what}, to {to:?}"));
            }
        }
    });
}

/// Adds a tensor in dtype `to` to a chain, and reads the ReLU of the sum, which is stored in that dtype, twice.
fn residual_block(operands: &Operands, to: DType, what: &str) {
    let (shape, elements) = (operands.x.shape(), operands.values.len());
    let stored = |values: &[f64]| tensor(values, shape.as_slice(), to);
    let rounded = |values: &[f64]| read(&stored(values));
    let constant = PlainAutodiff::from_inner;
    let tracked = |values| PlainAutodiff::float_set_require_grad(constant(values), true);
    let [plus, one, other] = [7, 8, 9].map(|seed| rounded(&noise(elements, seed)));
    let factors = operands.affine.factors();
    let factors = factors.map(|factor| factor.map(|factor| tracked(factor.clone())));
    let chain = operands.affine.with_factors(factors);
    let (x, summand) = (tracked(operands.x.clone()), tracked(stored(&plus)));
    let (of_x, of_summand) = (x.clone(), summand.clone());
    let output = affine::forward::<PlainAutodiff>(x, chain, Some(summand), to.into());
    let read_by = |factors: &[f64]| {
        let product = PlainAutodiff::float_mul(output.clone(), constant(stored(factors)));
        PlainAutodiff::float_sum(product)
    };
    let loss = PlainAutodiff::float_add(read_by(&one), read_by(&other));
    let grads = PlainAutodiff::backward(loss);

    let passes = |at| operands.chain(at) + plus[at] > 0.0;
    let expected: Vec<f64> = (0..elements)
        .map(|at| if passes(at) { one[at] + other[at] } else { 0.0 })
        .collect();
    let found = PlainAutodiff::grad(&of_summand, &grads).unwrap();
    assert_near(found, &expected, 1, what);
    let sum = rounded(&expected);
    let expected: Vec<f64> = (0..elements)
        .map(|at| sum[at] * operands.scale(at) * operands.factor(2, at, 1.0))
        .collect();
    let found = PlainAutodiff::grad(&of_x, &grads).unwrap();
    assert_near(found, &expected, 1, what);
}

#[test]
fn gradients_are_those_of_the_host() {
    each(|operands, dtype, what| {
        let shape = operands.x.shape();
        let grad = tensor(&noise(operands.values.len(), 7), shape.as_slice(), dtype);
        let grads = read(&grad);
        let plus = noise(grads.len(), 9);
        // What sums and squares of `x` add varies along the dimensions of a group.
        let [first, second] =
            [Group::First, Group::Second].map(|group| operands.affine.kept(group));
        let small = first.or(second).expect("each case has a factor");
        let small = small.as_slice();
        let of = |seed| noise(small.iter().product(), seed);
        let (before, of_squares, of_sum) = (of(10), of(11), of(12));
        let expected: Vec<f64> = (0..grads.len())
            .map(|at| {
                let factors = operands.scale(at) * operands.factor(2, at, 1.0);
                let there = place(at, operands.grid, small);
                let of_squares = (operands.values[at] + before[there]) * of_squares[there];
                operands.passed(at, grads[at]) * factors + of_squares + of_sum[there] + plus[at]
            })
            .collect();
        let in_f32 = |values: &[f64], shape| Some(tensor(values, shape, DType::F32));
        let found = affine::backward::<Plain>(
            operands.x.clone(),
            operands.affine.clone(),
            grad.clone(),
            Rest {
                before: in_f32(&before, small),
                of_squares: in_f32(&of_squares, small),
                of_sum: in_f32(&of_sum, small),
                plus: in_f32(&plus, shape.as_slice()),
            },
            FloatDType::F32,
        );
        assert_eq!(
            (found.dtype(), found.shape()),
            (DType::F32, shape),
            "{what}"
        );
        assert_near(found, &expected, 1, what);

        for group in [Group::First, Group::Second, Group::All] {
            let Some(kept) = operands.affine.kept(group) else {
                continue;
            };
            let rescale = |at| operands.factor(2, at, 1.0);
            let passed = |at| operands.passed(at, grads[at]);
            let gradient = |at| match group {
                Group::First => passed(at) * rescale(at),
                Group::Second | Group::All => passed(at),
            };
            let product = |at| match group {
                Group::First | Group::All => gradient(at) * operands.centered(at),
                Group::Second => gradient(at) * operands.centered(at) * operands.scale(at),
            };
            let sums = affine::sums::<Plain>(
                operands.x.clone(),
                operands.affine.clone(),
                grad.clone(),
                group,
            );
            let terms = grads.len() / kept.num_elements();
            for (found, expected) in [
                (sums.of_gradient, operands.sums(kept.as_slice(), gradient)),
                (sums.of_product, operands.sums(kept.as_slice(), product)),
            ] {
                assert_eq!(found.shape(), kept, "{what}, {group:?}");
                assert_near(found, &expected, terms, what);
            }
        }
    });
}

#[test]
fn moments_are_those_of_the_host() {
    for dtype in dtypes() {
        for (shape, kept) in [
            (&[4, 8, 6, 8], &[1, 8, 1, 1]),
            (&[3, 5, 7, 3], &[1, 5, 1, 1]),
            (&[4, 8, 6, 8], &[4, 8, 6, 1]),
            (&[16, 16, 4, 24], &[1, 1, 1, 24]),
            (&[4, 8, 6, 8], &[1, 1, 1, 1]),
        ] {
            let factors = [&kept[..], &[], &[], &[]];
            let case = Case {
                shape,
                grid: shape,
                factors,
            };
            let operands = Operands::new(&case, dtype, false, End::Identity);
            let terms = operands.values.len() / kept.iter().product::<usize>();
            for (squared, mean) in [(false, false), (true, false), (false, true), (true, true)] {
                let moment = MomentOf {
                    grid: shape.to_vec().into(),
                    before: operands.affine.before.clone(),
                    kept: kept.to_vec().into(),
                    squared,
                    mean,
                };
                let spread = || {
                    let (grid, kept) = (shape.to_vec().into(), kept.to_vec().into());
                    affine::spread::<Plain>(operands.x.clone(), grid, kept, mean)
                };
                let power = if squared { 2 } else { 1 };
                let sums = operands.sums(kept, |at| operands.centered(at).powi(power));
                let over = if mean { terms as f64 } else { 1.0 };
                let expected: Vec<_> = sums.iter().map(|sum| sum / over).collect();
                let what = format!("{shape:?} kept {kept:?} in {dtype:?}, {squared}, {mean}");
                for known in [None, Some(spread())] {
                    let found = affine::moment::<Plain>(operands.x.clone(), moment.clone(), known);
                    assert_near(found, &expected, terms, &what);
                }
            }
        }
    }
}

/// In slices and without, by unit and by team, with a number of vectors that no unit count divides, and with channels last.
#[test]
fn a_variance_keeps_its_digits_where_the_mean_is_large_or_one_value_is() {
    for dtype in dtypes() {
        for (shape, kept) in [
            ([16, 8, 33, 31], [1, 8, 1, 1]),
            ([16, 8, 33, 32], [1, 8, 1, 1]),
            ([7, 3, 5, 3], [1, 3, 1, 1]),
            ([6, 2, 32, 40], [6, 1, 1, 1]),
            ([128, 4, 8, 16], [1, 1, 1, 16]),
        ] {
            let elements: usize = shape.iter().product();
            let sums: usize = kept.iter().product();
            let is_first = |at: usize, seen: &mut Vec<bool>| {
                !std::mem::replace(&mut seen[place(at, &shape, &kept)], true)
            };
            let mut seen = vec![false; sums];
            // Values near 100, and zeros but for the first of each sum.
            let near_100 = noise(elements, 1).into_iter().map(|x| 100.0 + x).collect();
            let zeros = (0..elements)
                .map(|at| f64::from(is_first(at, &mut seen)))
                .collect();
            for (values, is_last) in [(&near_100, false), (&near_100, true), (&zeros, false)] {
                let values: &Vec<f64> = values;
                let x = match is_last {
                    false => tensor(values, &shape, dtype),
                    true => {
                        let [n, c, h, w] = shape;
                        let last = tensor(values, &[n, h, w, c], dtype);
                        Plain::float_permute(last, &[0, 3, 1, 2])
                    }
                };
                let values = read(&x);
                let terms = (elements / sums) as f64;
                let (mut means, mut variances) = (vec![0.0; sums], vec![0.0; sums]);
                for (at, value) in values.iter().enumerate() {
                    means[place(at, &shape, &kept)] += value / terms;
                }
                for (at, value) in values.iter().enumerate() {
                    let place = place(at, &shape, &kept);
                    variances[place] += (value - means[place]).powi(2) / terms;
                }
                let (grid, of) = (shape.to_vec().into(), kept.to_vec().into());
                let found = affine::spread::<Plain>(x, grid, of, true);
                let what = format!("{shape:?} kept {kept:?} in {dtype:?}, last {is_last}");
                for (found, expected) in [(found.sum, means), (found.of_squares, variances)] {
                    assert_eq!(found.shape().as_slice(), kept, "{what}");
                    for (found, expected) in read(&found).iter().zip(&expected) {
                        // A unit adds up to some hundred terms, of which each step rounds once.
                        let bound = 256.0 * f64::from(f32::EPSILON) * expected;
                        assert!(
                            (found - expected).abs() <= bound,
                            "{what}: {found}, {expected}"
                        );
                    }
                }
            }
        }
    }
}

/// A convolution on CubeCL returns its channels last in memory.
#[test]
fn elements_keep_their_places_whatever_the_layout() {
    let shape = [2, 4, 3, 8];
    for dtype in dtypes() {
        let values = noise(192, 0);
        let last = tensor(&values, &[2, 3, 8, 4], dtype);
        let x = Plain::float_permute(last, &[0, 3, 1, 2]);
        let values = read(&x);
        let scale = tensor(&[1.0, 2.0, 3.0, 4.0], &[1, 4, 1, 1], DType::F32);
        let affine = Affine {
            scale: Some(scale),
            ..Affine::identity(shape.to_vec().into())
        };
        let expected: Vec<f64> = (0..192)
            .map(|at| values[at] * (1 + place(at, &shape, &[1, 4, 1, 1])) as f64)
            .collect();
        let found = affine::forward::<Plain>(x.clone(), affine.clone(), None, FloatDType::F32);
        assert_near(found, &expected, 1, "the chain");
        let grad = tensor(&noise(192, 3), &shape, dtype);
        let grads = read(&grad);
        let sums = affine::sums::<Plain>(x, affine, grad, Group::First);
        let mut expected = [0.0; 4];
        for at in 0..192 {
            expected[place(at, &shape, &[1, 4, 1, 1])] += grads[at] * values[at];
        }
        assert_near(sums.of_product, &expected, 48, "the sums");
    }
}

/// Images whose channels are the first of wider rows: as a product leaves them on CUDA, whose rows begin at aligned places.
#[test]
fn rows_may_be_padded() {
    for dtype in dtypes() {
        // The channels, and those of the wider rows. The last ones fit no vectors.
        for [channels, width] in [[16, 24], [8, 64], [5, 9], [12, 13]] {
            let shape = [2, channels, 3, 8];
            let padded = |seed, dtype| {
                let slices = [2, 3, 8, channels].map(|size| Slice::from(0..size));
                let wide = noise(2 * 3 * 8 * width, seed);
                let wide = tensor(&wide, &[2, 3, 8, width], dtype);
                let last = Plain::float_slice(wide, &slices);
                Plain::float_permute(last, &[0, 3, 1, 2])
            };
            let whole = |tensor: &Float, dtype| rows::tensor(&read(tensor), &shape, dtype);
            let operands = [padded(1, dtype), padded(2, dtype), padded(3, DType::F32)];
            let [x, grad, plus] = &operands;
            let wholes = [whole(x, dtype), whole(grad, dtype), whole(plus, DType::F32)];
            let small = |seed| {
                let factor = noise(channels, seed);
                Some(tensor(&factor, &[1, channels, 1, 1], DType::F32))
            };
            let chain = Affine {
                before: small(4),
                scale: small(5),
                after: small(6),
                end: End::Relu,
                ..Affine::identity(shape.to_vec().into())
            };
            let results = |[x, grad, plus]: &[Float; 3]| {
                let (x, chain) = (|| x.clone(), || chain.clone());
                let [wide, low] = [DType::F32, dtype].map(|dtype| {
                    affine::forward::<Plain>(x(), chain(), Some(plus.clone()), dtype.into())
                });
                let rest = Rest::plus(Some(plus.clone()));
                let dx = affine::backward::<Plain>(x(), chain(), grad.clone(), rest, dtype.into());
                let sums = affine::sums::<Plain>(x(), chain(), grad.clone(), Group::First);
                let kept = Shape::new([1, channels, 1, 1]);
                let spread = affine::spread::<Plain>(x(), chain().grid, kept, true);
                let of_sums = [sums.of_gradient, sums.of_product];
                let of_spread = [spread.sum, spread.of_squares];
                [wide, low, dx].into_iter().chain(of_sums).chain(of_spread)
            };
            let what = format!("{channels} of {width} in {dtype:?}");
            for (found, expected) in results(&operands).zip(results(&wholes)) {
                let terms = 2 * 3 * 8;
                assert_near(found, &read(&expected), terms, &what);
            }
        }
    }
}
