//! The weight gradient of a convolution, compared with the host in F64, in both layouts of the images.

use burn_amp_kernels::convolution;
use burn_amp_tests::prelude::*;
use burn_backend::ops::ConvOptions;

use super::rows::{self, Float, read, tensor};

/// A convolution: the sizes of the images `[batch, channels, height, width]`, of the weight `[filters, height, width]`, and the
/// numbers along both dimensions.
struct Case {
    images: [usize; 4],
    weight: [usize; 3],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

const PLAIN: Case = Case {
    images: [16, 8, 16, 16],
    weight: [24, 1, 1],
    stride: [1; 2],
    padding: [0; 2],
    dilation: [1; 2],
};

/// With at least 4096 places, from which on the kernels compute, and with fewer.
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
        // One image, and few places: Burn's own gradient.
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
        let [batch, _, height, width] = self.output();
        cfg!(feature = "cubecl") && batch > 1 && batch * height * width >= 4096
    }

    fn options(&self) -> ConvOptions<2> {
        ConvOptions::new(self.stride, self.padding, self.dilation, 1)
    }

    fn weight(&self) -> [usize; 4] {
        let [filters, height, width] = self.weight;
        [filters, self.images[1], height, width]
    }

    fn output(&self) -> [usize; 4] {
        let along = |at: usize| {
            let reach = self.dilation[at] * (self.weight[1 + at] - 1) + 1;
            (self.images[2 + at] + 2 * self.padding[at] - reach) / self.stride[at] + 1
        };
        [self.images[0], self.weight[0], along(0), along(1)]
    }

    /// The place in an image that a window reads; `None` outside of it.
    fn reads(&self, along: usize, place: usize, element: usize) -> Option<usize> {
        let padded = place * self.stride[along] + element * self.dilation[along];
        let place = padded.checked_sub(self.padding[along])?;
        (place < self.images[2 + along]).then_some(place)
    }

    /// The gradient of the weight, from images and gradients of the output, and the sums of the absolute values of its terms.
    fn on_host(&self, images: &[f64], grad: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let at = |shape: [usize; 4], place: [usize; 4]| {
            let along = shape.into_iter().zip(place);
            along.fold(0, |at, (size, place)| at * size + place)
        };
        let (weight, output) = (self.weight(), self.output());
        let elements = weight.iter().product();
        let (mut sums, mut sizes) = (vec![0.0; elements], vec![0.0; elements]);
        for element in 0..elements {
            let [_, c, h, w] = weight;
            let (filter, channel) = (element / (c * h * w), element / (h * w) % c);
            let (in_height, in_width) = (element / w % h, element % w);
            for (row, column) in (0..output[2]).flat_map(|y| (0..output[3]).map(move |x| (y, x))) {
                let y = self.reads(0, row, in_height);
                let Some((y, x)) = y.zip(self.reads(1, column, in_width)) else {
                    continue;
                };
                for image in 0..output[0] {
                    let term = images[at(self.images, [image, channel, y, x])]
                        * grad[at(output, [image, filter, row, column])];
                    sums[element] += term;
                    sizes[element] += term.abs();
                }
            }
        }
        (sums, sizes)
    }
}

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
            let (expected, sizes) = case.on_host(&images, &grad);
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
                assert_eq!(found.dtype(), dtype, "{what}");
                assert_eq!(found.shape().as_slice(), case.weight(), "{what}");
                let found = read(&found);
                for (place, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    // The kernels round the sum once, and add in F32. Burn's own gradient may add in low precision.
                    let adds_in = match case.has_kernel() {
                        true => 64.0 * rows::epsilon(DType::F32),
                        false => 8.0 * rows::epsilon(dtype),
                    };
                    let bound = rows::epsilon(dtype) * expected.abs() + adds_in * sizes[place];
                    let error = (found - expected).abs();
                    assert!(
                        error <= bound,
                        "{what}: {found} and not {expected} at {place}"
                    );
                }
            }
        }
    }
}
