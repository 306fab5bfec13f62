//! Convolutions and their gradients, compared with the host in F64, in both layouts of the images.

use burn_amp_kernels::convolution::{self, InF32};
use burn_amp_tests::prelude::*;
use burn_backend::ops::{ConvOptions, ConvTransposeOptions, ModuleOps};

use super::rows::{self, Float, read, tensor};

/// A convolution: the sizes of the images `[batch, channels, height, width]`, of the weight `[filters, height, width]`, and the
/// numbers along both dimensions.
struct Case {
    images: [usize; 4],
    weight: [usize; 3],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    groups: usize,
}

const PLAIN: Case = Case {
    images: [16, 8, 16, 16],
    weight: [24, 1, 1],
    stride: [1; 2],
    padding: [0; 2],
    dilation: [1; 2],
    groups: 1,
};

/// With at least 4096 places, from which on a weight gradient is split, and with fewer.
fn cases() -> Vec<Case> {
    vec![
        PLAIN,
        Case {
            weight: [8, 3, 3],
            padding: [1; 2],
            ..PLAIN
        },
        Case {
            images: [16, 16, 32, 33],
            weight: [5, 1, 1],
            stride: [2; 2],
            ..PLAIN
        },
        // Three channels, as those of a picture, and windows that reach over each border by another number of places.
        Case {
            images: [6, 3, 60, 61],
            weight: [8, 7, 5],
            stride: [2, 1],
            padding: [3, 2],
            ..PLAIN
        },
        Case {
            images: [10, 6, 24, 25],
            weight: [4, 2, 3],
            dilation: [3, 2],
            padding: [0, 2],
            ..PLAIN
        },
        // Depthwise, in vectors and, with 15 channels, without; with two filters for each channel; in groups.
        Case {
            weight: [8, 3, 3],
            padding: [1; 2],
            groups: 8,
            ..PLAIN
        },
        Case {
            images: [3, 15, 19, 20],
            weight: [15, 7, 5],
            stride: [2, 3],
            padding: [3, 4],
            groups: 15,
            ..PLAIN
        },
        Case {
            weight: [16, 3, 3],
            padding: [4; 2],
            dilation: [4; 2],
            groups: 8,
            ..PLAIN
        },
        Case {
            weight: [6, 1, 3],
            stride: [1, 2],
            padding: [0, 1],
            groups: 2,
            ..PLAIN
        },
        // One place, which one element of the window reads.
        Case {
            images: [1, 4, 1, 1],
            weight: [4, 3, 3],
            padding: [1; 2],
            groups: 4,
            ..PLAIN
        },
        // Windows that lie apart, in one dimension or both, with places behind the last one and in the padding.
        Case {
            images: [2, 4, 9, 8],
            weight: [6, 1, 1],
            stride: [2; 2],
            ..PLAIN
        },
        Case {
            images: [2, 3, 11, 10],
            weight: [5, 2, 3],
            stride: [3, 2],
            padding: [1, 1],
            ..PLAIN
        },
        Case {
            images: [1, 3, 14, 9],
            weight: [4, 2, 1],
            stride: [4, 3],
            padding: [0, 1],
            dilation: [2, 1],
            ..PLAIN
        },
        // One image.
        Case {
            images: [1, 4, 70, 70],
            ..PLAIN
        },
        Case {
            images: [2, 4, 8, 8],
            ..PLAIN
        },
    ]
}

impl Case {
    fn window_bytes(&self, dtype: DType) -> usize {
        let [batch, _, height, width] = self.output();
        let window: usize = self.weight()[1..].iter().product();
        batch * height * width * window * dtype.size()
    }

    /// Whether the gradient is not Burn's own.
    fn has_kernel(&self) -> bool {
        cfg!(feature = "cubecl")
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new(self.stride, self.padding, self.dilation, self.groups)
    }

    fn weight(&self) -> [usize; 4] {
        let [filters, height, width] = self.weight;
        [filters, self.images[1] / self.groups, height, width]
    }

    fn output(&self) -> [usize; 4] {
        let along = |at: usize| {
            (self.images[2 + at] + 2 * self.padding[at] - self.reach(at)) / self.stride[at] + 1
        };
        [self.images[0], self.weight[0], along(0), along(1)]
    }

    /// The size of a window along a dimension.
    fn reach(&self, at: usize) -> usize {
        self.dilation[at] * (self.weight[1 + at] - 1) + 1
    }

    /// The place in an image that a window reads; `None` outside of it.
    fn reads(&self, along: usize, place: usize, element: usize) -> Option<usize> {
        let padded = place * self.stride[along] + element * self.dilation[along];
        let place = padded.checked_sub(self.padding[along])?;
        (place < self.images[2 + along]).then_some(place)
    }

    /// Calls back with the place in the output, in the images and in the weight of each product of the convolution.
    fn products(&self, mut add: impl FnMut([usize; 3])) {
        let at = |shape: [usize; 4], place: [usize; 4]| {
            let along = shape.into_iter().zip(place);
            along.fold(0, |at, (size, place)| at * size + place)
        };
        let (weight, output) = (self.weight(), self.output());
        for element in 0..weight.iter().product() {
            let [_, c, h, w] = weight;
            let (filter, in_group) = (element / (c * h * w), element / (h * w) % c);
            let channel = filter / (weight[0] / self.groups) * c + in_group;
            let (in_height, in_width) = (element / w % h, element % w);
            for (row, column) in (0..output[2]).flat_map(|y| (0..output[3]).map(move |x| (y, x))) {
                let y = self.reads(0, row, in_height);
                let Some((y, x)) = y.zip(self.reads(1, column, in_width)) else {
                    continue;
                };
                for image in 0..output[0] {
                    add([
                        at(output, [image, filter, row, column]),
                        at(self.images, [image, channel, y, x]),
                        element,
                    ]);
                }
            }
        }
    }

    /// The sums of the products of two of the three tensors at the places of the third, and those of their absolute values.
    fn on_host(&self, of: usize, [one, other]: [&[f64]; 2]) -> (Vec<f64>, Vec<f64>) {
        let shape = [self.output(), self.images, self.weight()][of];
        let elements = shape.iter().product();
        let (mut sums, mut sizes) = (vec![0.0; elements], vec![0.0; elements]);
        self.products(|places| {
            let mut read = (0..3)
                .filter(|which| *which != of)
                .map(|which| places[which]);
            let term = one[read.next().unwrap()] * other[read.next().unwrap()];
            sums[places[of]] += term;
            sizes[places[of]] += term.abs();
        });
        (sums, sizes)
    }
}

impl Case {
    /// Asserts that sums of terms of such sizes, made of operands in a `dtype`, were rounded once. The kernels add in F32; Burn's own
    /// may add in low precision.
    fn assert_rounded_once(
        &self,
        what: &str,
        dtype: DType,
        found: &Float,
        [sums, sizes]: [&[f64]; 2],
    ) {
        let adds_in = if self.has_kernel() { DType::F32 } else { dtype };
        assert_sums(adds_in, what, found, sums, sizes);
    }

    /// The transposed convolution with such operands: from the output's shape to that of the images.
    fn transposed(&self) -> ConvTransposeOptions<2> {
        let behind = |at| (self.output()[2 + at] - 1) * self.stride[at] + self.reach(at);
        let padding_out = [0, 1].map(|at| self.images[2 + at] + 2 * self.padding[at] - behind(at));
        let (stride, padding) = (self.stride, self.padding);
        ConvTransposeOptions::new(stride, padding, padding_out, self.dilation, self.groups)
    }
}

/// Asserts that sums of terms of such sizes were added in a dtype and rounded once.
fn assert_sums(adds_in: DType, what: &str, found: &Float, sums: &[f64], sizes: &[f64]) {
    let terms = if adds_in == DType::F32 { 64.0 } else { 8.0 };
    let in_sum = terms * rows::epsilon(adds_in);
    let rounded = rows::epsilon(found.dtype()).max(rows::epsilon(adds_in));
    let found = read(found);
    assert_eq!(found.len(), sums.len(), "{what}");
    for (place, (found, sum)) in found.iter().zip(sums).enumerate() {
        let bound = rounded * sum.abs() + in_sum * sizes[place];
        assert!(
            (found - sum).abs() <= bound,
            "{what}: {found} and not {sum} at {place}"
        );
    }
}

/// The places of the three tensors in the order of [`Case::products`].
const OUTPUT: usize = 0;
const IMAGES: usize = 1;
const WEIGHT: usize = 2;

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
            let (images, grad) = (drawn(case.images, 1), drawn(case.output(), 2));
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
                assert_sums(dtype, &what, &found, &sums, &sizes);
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
                let adds_in = if is_ours[which] { DType::F32 } else { dtype };
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
