//! Convolutions and their gradients, compared with the host in F64, in both layouts of the images.

mod case;

use burn_amp_kernels::convolution::{self, InF32};
use burn_amp_tests::prelude::*;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, ModuleOps};

use self::case::{IMAGES, OUTPUT, WEIGHT, assert_sums, cases};
use super::rows::{self, Float, read, tensor};

/// The same images with their channels last in memory.
fn channels_last(
    images: &[f64],
    [batch, channels, height, width]: [usize; 4],
    dtype: DType,
) -> Float {
    let contiguous = tensor(images, &[batch, channels, height, width], dtype);
    let last = Plain::float_permute(contiguous, &[0, 2, 3, 1]);
    // A copy, which lies in its own order.
    let last = Plain::float_add_scalar(Plain::float_mul_scalar(last, 1.0.into()), 0.0.into());
    Plain::float_permute(last, &[0, 3, 1, 2])
}

#[test]
fn the_weight_gradient_is_that_of_the_host_and_rounded_once() {
    for dtype in rows::dtypes().into_iter().filter(|dtype| dtype.size() == 2) {
        for (number, case) in cases().iter().enumerate() {
            let drawn = |shape: [usize; 4], seed| read(&rows::noisy(&shape, seed, dtype));
            let (mut images, grad) = (drawn(case.images, 1), drawn(case.output(), 2));
            case.spoil_unread(&mut images);
            let (expected, sizes) = case.on_host(WEIGHT, [&grad, &images]);
            let weight = || Plain::float_zeros(case.weight().into(), &here(), dtype.into());
            // In one piece, and two images at a time.
            let bytes = case.window_bytes(dtype);
            let at_a_time = [convolution::WINDOW_BYTES, 2 * bytes / case.images[0]];
            for (is_last, window_bytes) in [false, true].into_iter().zip(at_a_time) {
                let made = |values: &[f64], shape: [usize; 4]| match is_last {
                    false => tensor(values, &shape, dtype),
                    true => channels_last(values, shape, dtype),
                };
                let x = made(&images, case.images);
                let grad = made(&grad, case.output());
                let options = case.options();
                let found = convolution::weight_gradient_within::<Plain>(
                    x,
                    weight(),
                    grad,
                    options,
                    window_bytes,
                );
                let what = format!("case {number}, channels last {is_last}, {dtype:?}");
                assert_eq!(found.shape().as_slice(), case.weight(), "{what}");
                assert_eq!(found.dtype(), DType::F32, "{what}");
                case.assert_rounded_once(&what, dtype, &found, [&expected, &sizes]);
            }
        }
    }
}

#[test]
fn a_convolution_in_groups_is_that_of_the_host_and_rounded_once() {
    for dtype in rows::dtypes() {
        for (number, case) in cases().iter().enumerate() {
            if case.groups == 1 {
                continue;
            }
            let [images, weight, grad, bias] = [
                (case.images.to_vec(), 1),
                (case.weight().to_vec(), 2),
                (case.output().to_vec(), 3),
                (vec![case.weight[0]], 4),
            ]
            .map(|(shape, seed)| rows::noisy(&shape, seed, dtype));
            let [of_images, of_weight, of_grad, of_bias] =
                [&images, &weight, &grad, &bias].map(read);
            let check = |what: &str, found: Float, sums: &[f64], sizes: &[f64]| {
                assert_eq!(found.dtype(), dtype, "{what}");
                let what = format!("{what} of case {number}, {dtype:?}");
                case.assert_rounded_once(&what, dtype, &found, [sums, sizes]);
            };

            let (sums, sizes) = case.on_host(OUTPUT, [&of_images, &of_weight]);
            let forward = |bias| {
                convolution::forward::<Plain>(
                    images.clone(),
                    weight.clone(),
                    bias,
                    case.options(),
                    Default::default(),
                )
            };
            check("output", forward(None), &sums, &sizes);
            let [filters, places] = [case.weight[0], case.output()[2..].iter().product()];
            let plus = |sums: &[f64], bias: &dyn Fn(f64) -> f64| -> Vec<f64> {
                let sums = sums.iter().enumerate();
                sums.map(|(at, sum)| sum + bias(of_bias[at / places % filters]))
                    .collect()
            };
            let (sums, sizes) = (plus(&sums, &|bias| bias), plus(&sizes, &f64::abs));
            check("biased output", forward(Some(bias)), &sums, &sizes);

            let (sums, sizes) = case.on_host(IMAGES, [&of_grad, &of_weight]);
            let found = convolution::input_gradient::<Plain>(images, weight, grad, case.options());
            check("gradient", found, &sums, &sizes);
        }
    }
}

#[test]
fn the_gradient_of_images_that_windows_cover_in_steps_is_that_of_the_host() {
    for dtype in rows::dtypes() {
        for (number, case) in cases().iter().enumerate() {
            let is_large = case.weight[1] * case.weight[2] > 9;
            if case.groups > 1 || case.stride == [1; 2] || is_large {
                continue;
            }
            let shapes = [
                case.images.to_vec(),
                case.weight().to_vec(),
                case.output().to_vec(),
            ];
            let mut seed = 0;
            let [images, weight, grad] = shapes.map(|shape| {
                seed += 1;
                rows::noisy(&shape, seed, dtype)
            });
            let (sums, sizes) = case.on_host(IMAGES, [&read(&grad), &read(&weight)]);
            let adds_in = case.windows_in(dtype);
            // All windows at a time, and those of one image.
            for window_bytes in [usize::MAX, 1] {
                let (images, weight, grad) = (images.clone(), weight.clone(), grad.clone());
                let options = case.options();
                let found = convolution::input_gradient_within::<Plain>(
                    images,
                    weight,
                    grad,
                    options,
                    window_bytes,
                );
                let what = format!("case {number}, {dtype:?}, {window_bytes} bytes of windows");
                assert_eq!(found.shape().as_slice(), case.images, "{what}");
                assert_sums(adds_in, &what, &found, &sums, &sizes);
            }
        }
    }
}

/// The seed of the gradient of the output.
const GRAD: u32 = 9;

/// The output of a convolution of operands with the seeds 1, 2 and 3, and the gradients of its operands.
fn differentiated(
    shapes: [&[usize]; 3],
    dtype: DType,
    convolution: impl Fn([FloatTensor<PlainAutodiff>; 3]) -> FloatTensor<PlainAutodiff>,
) -> [Float; 4] {
    let mut seed = 0;
    let operands = shapes.map(|shape| {
        seed += 1;
        let made = PlainAutodiff::from_inner(rows::noisy(shape, seed, dtype));
        PlainAutodiff::float_set_require_grad(made, true)
    });
    let output = convolution(operands.clone());
    let value = PlainAutodiff::inner(output.clone());
    let factors = rows::noisy(output.shape().as_slice(), GRAD, dtype);
    let product = PlainAutodiff::float_mul(output, PlainAutodiff::from_inner(factors));
    let grads = PlainAutodiff::backward(PlainAutodiff::float_sum(product));
    let gradient = |at: usize| PlainAutodiff::grad(&operands[at], &grads).unwrap();
    [value, gradient(0), gradient(1), gradient(2)]
}

#[test]
fn a_transposed_convolution_is_that_of_the_host() {
    for dtype in rows::dtypes() {
        for (number, case) in cases().iter().enumerate() {
            // Larger windows take the host minutes, and are like others.
            if case.weight[1] * case.weight[2] > 9 {
                continue;
            }
            let (from, weight, to) = (case.output(), case.weight(), case.images);
            let biases = [weight[1] * case.groups];
            let drawn = |shape: &[usize], seed| read(&rows::noisy(shape, seed, dtype));
            let (x, by) = (drawn(&from, 1), drawn(&weight, 2));
            let (bias, grad) = (drawn(&biases, 3), drawn(&to, GRAD));
            let places: usize = to[2..].iter().product();
            let channel = |at: usize| at / places % biases[0];

            let (mut sums, mut sizes) = case.on_host(IMAGES, [&x, &by]);
            for at in 0..sums.len() {
                sums[at] += bias[channel(at)];
                sizes[at] += bias[channel(at)].abs();
            }
            let mut of_bias = [vec![0.0; biases[0]], vec![0.0; biases[0]]];
            for (at, grad) in grad.iter().enumerate() {
                of_bias[0][channel(at)] += grad;
                of_bias[1][channel(at)] += grad.abs();
            }
            let of_x = case.on_host(OUTPUT, [&grad, &by]);
            let of_weight = case.on_host(WEIGHT, [&x, &grad]);
            let [bias_sums, bias_sizes] = of_bias;
            let expected = [(sums, sizes), of_x, of_weight, (bias_sums, bias_sizes)];

            // Gradients in the dtype of their tensors, and in F32.
            let in_f32 = InF32 {
                weight: number % 2 == 1,
                bias: number % 3 == 1,
            };
            let found = differentiated([&from, &weight, &biases], dtype, |[x, weight, bias]| {
                let options = case.transposed();
                convolution::transposed::<PlainAutodiff>(x, weight, Some(bias), options, in_f32)
            });
            let of = |in_f32| if in_f32 { rows::wide(dtype) } else { dtype };
            let dtypes = [dtype, dtype, of(in_f32.weight), of(in_f32.bias)];
            let is_grouped = case.groups > 1 && case.has_kernel();
            let has_kernel = is_grouped || case.has_kernel() && dtype.size() == 2;
            // The bias of the output is added to sums that are rounded.
            let is_ours = [false, is_grouped, has_kernel, cfg!(feature = "cubecl")];
            let names = ["output", "gradient", "weight gradient", "bias gradient"];
            for which in 0..4 {
                let what = format!("{} of case {number}, {dtype:?}", names[which]);
                let (sums, sizes) = &expected[which];
                let adds_in = match (is_ours[which], which) {
                    (true, _) => DType::F32,
                    (false, 0) => case.windows_in(dtype),
                    (false, _) => dtype,
                };
                assert_eq!(found[which].dtype(), dtypes[which], "{what}");
                assert_sums(adds_in, &what, &found[which], sums, sizes);
            }
        }
    }
}

/// Asserts that results of two convolutions of sequences are alike.
fn assert_alike(what: &str, dtype: DType, results: [[Float; 4]; 2]) {
    let [found, plain] = results.map(|results| results.map(|tensor| read(&tensor)));
    for (which, (found, plain)) in found.iter().zip(&plain).enumerate() {
        assert_eq!(found.len(), plain.len());
        let largest = plain.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        for (found, plain) in found.iter().zip(plain) {
            // Both are sums of up to 63 terms, which the plain backend may add in low precision.
            let bound = 8.0 * rows::epsilon(dtype) * largest;
            assert!(
                (found - plain).abs() <= bound,
                "{which} of {what}, {dtype:?}: {found} and {plain}"
            );
        }
    }
}

#[test]
fn a_convolution_of_sequences_is_that_of_the_plain_backend() {
    for dtype in rows::dtypes() {
        for (filters, groups) in [(12, 1), (6, 6), (12, 6), (4, 2)] {
            let shapes: [&[usize]; 3] = [&[3, 6, 41], &[filters, 6 / groups, 5], &[filters]];
            let options = || ConvOptions::new([2], [3], [2], groups);
            let found = differentiated(shapes, dtype, |[x, weight, bias]| {
                convolution::forward_1d::<PlainAutodiff>(
                    x,
                    weight,
                    Some(bias),
                    options(),
                    Default::default(),
                )
            });
            let plain = differentiated(shapes, dtype, |[x, weight, bias]| {
                PlainAutodiff::conv1d(x, weight, Some(bias), options())
            });
            let what = format!("{filters} filters in {groups} groups");
            assert_alike(&what, dtype, [found, plain]);
        }
    }
}

#[test]
fn a_transposed_convolution_of_sequences_is_that_of_the_plain_backend() {
    for dtype in rows::dtypes() {
        for groups in [1, 2] {
            let shapes: [&[usize]; 3] = [&[3, 6, 21], &[6, 4 / groups, 5], &[4]];
            let options = || ConvTransposeOptions::new([2], [3], [1], [2], groups);
            let found = differentiated(shapes, dtype, |[x, weight, bias]| {
                convolution::transposed_1d::<PlainAutodiff>(
                    x,
                    weight,
                    Some(bias),
                    options(),
                    Default::default(),
                )
            });
            let plain = differentiated(shapes, dtype, |[x, weight, bias]| {
                PlainAutodiff::conv_transpose1d(x, weight, Some(bias), options())
            });
            assert_alike(&format!("{groups} groups"), dtype, [found, plain]);
        }
    }
}
