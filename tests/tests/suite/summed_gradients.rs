//! Law: gradients that are sums of many terms, of tensors in low precision, are F32 sums, rounded at most once; under a
//! policy that lowers nothing, they are those of the plain backend.

use burn_amp_tests::prelude::*;

type B = AmpAutodiff;

/// More terms than the largest sum of ones in BF16, which is 256, and in F16, which is 2048.
const TERMS: usize = 4096;

/// The uses of a weight. A launch of a software driver takes the host some milliseconds.
const USES: usize = if cfg!(feature = "cubecl") { 40 } else { 300 };

fn ones<B: Backend, const D: usize>(shape: [usize; D]) -> Tensor<B, D> {
    Tensor::ones(shape, &here())
}

fn zeros<B: Backend, const D: usize>(shape: [usize; D]) -> Tensor<B, D, Int> {
    Tensor::zeros(shape, &here())
}

/// Reads one element, the one at the start, many times.
type Reader<B> = fn(Tensor<B, 2>) -> Tensor<B, 2>;

fn readers<B: Backend>() -> [(&'static str, Reader<B>); 6] {
    [
        ("select", |x| x.select(0, zeros([TERMS]))),
        ("gather", |x| x.gather(0, zeros([TERMS, 1]))),
        ("gather_nd", |x| {
            x.gather_nd::<2, 1>(zeros([TERMS, 2])).unsqueeze_dim(1)
        }),
        ("cummin", |x| {
            x.expand([1, 1]).repeat_dim(0, TERMS).cummin(0)
        }),
        ("cummax", |x| {
            // The first of the rows stays the largest.
            let rows = ones::<B, 2>([TERMS - 1, 1]) * 0.5;
            Tensor::cat(vec![x, activation(rows)], 0).cummax(0)
        }),
        ("unfold", |x| {
            let row = x.reshape([1, 1]).repeat_dim(1, 2);
            row.unfold::<3, usize>(1, 2, 1).reshape([-1, 1])
        }),
    ]
}

fn reads_of_one_element() {
    for (name, read) in readers::<B>() {
        // burn-cubecl 0.21.0 adds to the same element from several units without atomics.
        if cfg!(feature = "cubecl") && name == "gather_nd" {
            continue;
        }
        let leaf = ones::<B, 2>([1, 1]).require_grad();
        let x = activation(leaf.clone());
        assert!(storage_dtype(&x) != DType::F32);
        let result = read(x);
        assert!(storage_dtype(&result) != DType::F32, "{name}");
        let terms = result.dims()[0];
        let grads = result.sum().backward();
        let gradient = leaf.grad(&grads).expect("finite").into_scalar();
        assert_eq!(gradient, terms as f32, "{name}");
    }
}

#[test]
fn an_element_that_is_read_many_times_gets_the_sum() {
    under_each!(reads_of_one_element, InBf16, UnscaledF16);
}

/// Preset `o2`, with a first scale whose product with the gradients of these tests is finite.
fn stored_low(compute: Compute) -> Config {
    changed(computing_in(compute), |it| {
        it.preset = Preset::O2;
        it.loss_scale.rule.init = 4.0;
    })
}

policy!(O2InF16, stored_low(Compute::F16));
policy!(O2InBf16, stored_low(Compute::Bf16));

fn looks_up_one_token() {
    let model: Embedding<B> = cast_params(EmbeddingConfig::new(3, 2).init(&here()));
    let tokens = zeros([1, TERMS]);
    let grads = model.forward(tokens).sum().backward();
    let gradient = model.weight.grad(&grads).expect("finite").into_data();
    let expected = [[TERMS as f32; 2], [0.0; 2], [0.0; 2]];
    assert_eq!(gradient, TensorData::from(expected));
}

#[test]
fn the_gradient_of_a_frequent_token_counts_its_places() {
    under_each!(looks_up_one_token, O2InBf16, O2InF16);
}

/// The gradient of a weight that is used `uses` times, each time with a gradient of 1.
fn gradient_of_uses(uses: usize, use_once: Reader<B>) -> TensorData {
    let config = LinearConfig::new(1, 1).with_bias(false);
    let model: Linear<B> = cast_params(config.init(&here()));
    let weight = model.weight.val();
    assert!(weight.dtype() != DType::F32);
    let results = (0..uses).map(|_| use_once(weight.clone())).collect();
    let grads = Tensor::cat(results, 0).sum().backward();
    model.weight.grad(&grads).expect("finite").into_data()
}

fn accumulates() {
    let uses: [(&str, Reader<B>); 7] = [
        ("matmul", |w| ones::<_, 2>([1, 1]).matmul(w)),
        ("product", |w| w * ones::<_, 2>([1, 1])),
        ("transposed", |w| w.transpose().matmul(ones::<_, 2>([1, 1]))),
        ("sum", |w| w.sum_dim(0)),
        ("cast", |w| w.cast(DType::F32)),
        ("to_f32", |w| burn_amp::to_f32(w)),
        ("to device", |w| w.to_device(&here())),
    ];
    for (name, use_once) in uses {
        for count in [1, USES] {
            let gradient = gradient_of_uses(count, use_once);
            assert_eq!(gradient.dtype, DType::F32);
            assert_eq!(gradient.iter::<f32>().next(), Some(count as f32), "{name}");
        }
    }
    // Uses of every kind together, some of which have a gradient in low precision and some in F32.
    let all: Reader<B> = |w| {
        let low = ones::<_, 2>([1, 1]).matmul(w.clone());
        let in_f32 = w.clone().exp() * 0.0 + w.clone();
        let softmax = burn::tensor::activation::softmax(w.clone(), 1) * 0.0;
        let gelu = burn::tensor::activation::gelu(w) * 0.0;
        low + in_f32 + softmax + gelu
    };
    let gradient = gradient_of_uses(USES, all);
    let expected = 2.0 * USES as f32;
    assert_eq!(gradient.iter::<f32>().next(), Some(expected));
}

#[test]
fn the_uses_of_a_parameter_stored_low_add_up_in_f32() {
    under_each!(accumulates, O2InBf16, O2InF16);
}

fn two_losses() {
    let config = LinearConfig::new(1, 1).with_bias(false);
    let model: Linear<B> = cast_params(config.init(&here())).no_grad();
    let weight = model.weight.val().require_grad();
    let (first, second) = (weight.clone() * 3.0, weight.clone() * 5.0);
    let gradient = |loss: Tensor<B, 2>| {
        let grads = loss.sum().backward();
        weight.grad(&grads).expect("finite").into_scalar()
    };
    assert_eq!((gradient(first), gradient(second)), (3.0, 5.0));
}

#[test]
fn two_losses_of_a_parameter_have_their_own_gradients() {
    under_each!(two_losses, O2InBf16, O2InF16);
}

/// Micro-batches of a parameter stored in half precision are summed in F32, whatever the dtype of each.
#[test]
fn micro_batches_of_a_parameter_in_half_precision_are_summed_in_f32() {
    fn unscaled(compute: Compute) -> Config {
        changed(scaling(compute, LossScaleMode::Off), |it| {
            it.preset = Preset::O2
        })
    }
    policy!(O2F16, unscaled(Compute::F16));
    policy!(O2Bf16, unscaled(Compute::Bf16));
    fn sums() {
        let linear = LinearConfig::new(2, 2).with_bias(false);
        let linear: Linear<B> = cast_params(linear.init(&here()));
        assert!(storage_dtype(&linear.weight.val()) != DType::F32);
        let mut sum = GradientsAccumulator::new();
        for _ in 0..TERMS {
            let grads = linear.weight.val().sum().backward();
            sum.accumulate(&linear, GradientsParams::from_grads(grads, &linear));
        }
        let id = linear.weight.id;
        let sum = sum.grads().get::<burn_amp_tests::Amp, 2>(id).unwrap();
        assert_eq!(sum.into_data(), TensorData::from([[TERMS as f32; 2]; 2]));
    }
    under_each!(sums, O2F16, O2Bf16);
}

/// The sum of many micro-batches is that in F64 but for the roundings of F32.
#[test]
fn many_micro_batches_are_summed_in_f32() {
    const MICRO_BATCHES: usize = if cfg!(feature = "cubecl") { 128 } else { 1024 };

    fn config(preset: Preset) -> Config {
        changed(scaling(Compute::F16, LossScaleMode::Static), |it| {
            it.preset = preset;
            it.loss_scale.rule.init = 64.0;
        })
    }
    policy!(OfO1, config(Preset::O1));
    policy!(OfO2, config(Preset::O2));
    policy!(OfO3, config(Preset::O3));
    fn sums() {
        let linear: Linear<B> = cast_params(LinearConfig::new(8, 4).init(&here()));
        let mut sum = GradientsAccumulator::new();
        let mut exact = vec![[0.0; 2]; 32];
        for at in 0..MICRO_BATCHES {
            let value = |i: usize| ((at * 16 + i) * 37 % 101) as f32 / 101.0 - 0.5;
            let x = TensorData::new((0..16).map(value).collect(), [2, 8]);
            let x = Tensor::<B, 2>::from_data(x, &here());
            let grads = linear.forward(x).square().mean().backward();
            let grads = GradientsParams::from_grads(grads, &linear);
            let gradient = grads
                .get::<burn_amp_tests::Amp, 2>(linear.weight.id)
                .unwrap();
            for ([sum, size], x) in exact.iter_mut().zip(gradient.into_data().iter::<f64>()) {
                *sum += x;
                *size += x.abs();
            }
            sum.accumulate(&linear, grads);
        }
        let sum = sum.grads();
        let sum = sum.get::<burn_amp_tests::Amp, 2>(linear.weight.id).unwrap();
        assert_eq!(sum.dtype(), DType::F32);
        for (found, [exact, size]) in sum.into_data().iter::<f64>().zip(exact) {
            // Each of the sums is rounded, and none is larger than the terms together.
            let bound = MICRO_BATCHES as f64 * f64::from(f32::EPSILON) / 2.0 * size;
            assert!((found - exact).abs() <= bound, "{found} {exact}");
            // In F16 it would be further off.
            assert!(bound < 0.1 * size);
        }
    }
    under_each!(sums, OfO1, OfO2, OfO3);
}

policy!(Off, changed(Config::default(), |it| it.preset = Preset::O0));

/// The gradients of an element in F16 that is read many times.
fn of_one_element_in_f16<B: AutodiffBackend>() -> Vec<TensorData> {
    let gradient = |read: Reader<B>| {
        let x = ones::<B, 2>([1, 1]).require_grad();
        let grads = read(x.clone().cast(DType::F16)).sum().backward();
        x.grad(&grads).expect("the sum reads it").into_data()
    };
    // Those that take no other tensor along.
    let names = ["select", "gather", "cummin", "unfold"];
    let readers = readers::<B>().into_iter();
    let chosen = readers.filter(|(name, _)| names.contains(name));
    chosen.map(|(_, read)| gradient(read)).collect()
}

#[test]
fn a_policy_that_lowers_nothing_adds_as_the_plain_backend_does() {
    let expected = of_one_element_in_f16::<PlainAutodiff>();
    let _policy = enter::<Off>();
    assert_eq!(of_one_element_in_f16::<B>(), expected);
}

/// Flex 0.21 adds the wrong elements of an F32 tensor that is a part of a transposed matrix. The gradient of a row that was
/// subtracted is a sum over such a part.
#[test]
fn a_gradient_that_is_part_of_a_transposed_matrix_is_summed_right() {
    const SIZE: usize = 48;
    let _policy = enter::<InF16>();
    let x = activation(ones::<B, 2>([SIZE, SIZE]));
    let row = ones::<B, 2>([1, SIZE]).require_grad();
    let weights: Vec<f32> = (0..2 * SIZE * SIZE)
        .map(|at| (at * 37 % 64) as f32)
        .collect();
    let both = Tensor::cat(vec![x.clone() - row.clone(), x], 0);
    let factors = TensorData::new(weights.clone(), [SIZE, 2 * SIZE]);
    let product = both.transpose() * Tensor::from_data(factors, &here());
    let found = row.grad(&product.sum().backward()).unwrap().into_data();
    // Sums of integers below 2048 are exact.
    let expected = weights
        .chunks(2 * SIZE)
        .map(|weights| -weights[..SIZE].iter().sum::<f32>())
        .collect();
    assert_eq!(found, TensorData::new::<f32, _>(expected, [1, SIZE]));
}
