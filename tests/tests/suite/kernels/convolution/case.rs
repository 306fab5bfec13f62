//! The convolutions that are compared, and what the host makes of them in F64.

use super::*;

/// A convolution: the sizes of the images `[batch, channels, height, width]`, of the weight `[filters, height, width]`, and the
/// numbers along both dimensions.
pub(super) struct Case {
    pub(super) images: [usize; 4],
    pub(super) weight: [usize; 3],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) groups: usize,
}

pub(super) const PLAIN: Case = Case {
    images: [16, 8, 16, 16],
    weight: [24, 1, 1],
    stride: [1; 2],
    padding: [0; 2],
    dilation: [1; 2],
    groups: 1,
};

/// With at least 4096 places, from which on a weight gradient is split, and with fewer.
pub(super) fn cases() -> Vec<Case> {
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
        // Filters and channels that matrix units multiply: one tile of each, several, and lines that are taken in two pieces; windows
        // that reach over borders, lie side by side with places behind the last one, or apart; places that are no multiple of 16.
        Case {
            images: [2, 32, 6, 21],
            weight: [16, 3, 3],
            padding: [1; 2],
            ..PLAIN
        },
        Case {
            images: [1, 16, 2, 66],
            weight: [128, 3, 2],
            padding: [2, 1],
            ..PLAIN
        },
        Case {
            images: [2, 96, 7, 15],
            weight: [48, 2, 2],
            stride: [2; 2],
            ..PLAIN
        },
        Case {
            images: [2, 64, 11, 40],
            weight: [32, 1, 3],
            stride: [3, 2],
            padding: [0, 3],
            dilation: [1, 3],
            ..PLAIN
        },
        // Windows so far apart that those of a line do not fit into shared memory.
        Case {
            images: [1, 16, 3, 480],
            weight: [16, 3, 3],
            stride: [1, 7],
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
    pub(super) fn window_bytes(&self, dtype: DType) -> usize {
        let [batch, _, height, width] = self.output();
        let window: usize = self.weight()[1..].iter().product();
        batch * height * width * window * dtype.size()
    }

    /// Whether the gradient is not Burn's own.
    pub(super) fn has_kernel(&self) -> bool {
        cfg!(feature = "cubecl")
    }

    /// The dtype of the bits that windows have as they are added up. In F32 those that lie apart are products, which are in TF32 on CUDA, with
    /// the bits of F16.
    pub(super) fn windows_in(&self, dtype: DType) -> DType {
        let lie_apart = (0..2).any(|at| self.stride[at] > self.reach(at));
        match dtype {
            DType::F32 if lie_apart && cfg!(feature = "cuda") => DType::F16,
            _ => dtype,
        }
    }

    pub(super) fn options(&self) -> ConvOptions<2> {
        ConvOptions::new(self.stride, self.padding, self.dilation, self.groups)
    }

    pub(super) fn weight(&self) -> [usize; 4] {
        let [filters, height, width] = self.weight;
        [filters, self.images[1] / self.groups, height, width]
    }

    pub(super) fn output(&self) -> [usize; 4] {
        let along = |at: usize| {
            (self.images[2 + at] + 2 * self.padding[at] - self.reach(at)) / self.stride[at] + 1
        };
        [self.images[0], self.weight[0], along(0), along(1)]
    }

    /// The size of a window along a dimension.
    pub(super) fn reach(&self, at: usize) -> usize {
        self.dilation[at] * (self.weight[1 + at] - 1) + 1
    }

    /// The place in an image that a window reads; `None` outside of it.
    pub(super) fn reads(&self, along: usize, place: usize, element: usize) -> Option<usize> {
        let padded = place * self.stride[along] + element * self.dilation[along];
        let place = padded.checked_sub(self.padding[along])?;
        (place < self.images[2 + along]).then_some(place)
    }

    /// Makes the values of images NaN that no window reads.
    pub(super) fn spoil_unread(&self, images: &mut [f64]) {
        let [_, _, height, width] = self.images;
        let [rows, columns] = [0, 1].map(|along| -> Vec<bool> {
            let mut read = vec![false; self.images[2 + along]];
            for place in 0..self.output()[2 + along] {
                for element in 0..self.weight[1 + along] {
                    if let Some(at) = self.reads(along, place, element) {
                        read[at] = true;
                    }
                }
            }
            read
        });
        for (at, value) in images.iter_mut().enumerate() {
            if !(rows[at / width % height] && columns[at % width]) {
                *value = f64::NAN;
            }
        }
    }

    /// Calls back with the place in the output, in the images and in the weight of each product of the convolution.
    pub(super) fn products(&self, mut add: impl FnMut([usize; 3])) {
        let at = |shape: [usize; 4], place: [usize; 4]| {
            let along = shape.into_iter().zip(place);
            along.fold(0, |at, (size, place)| at * size + place)
        };
        let (weight, output) = (self.weight(), self.output());
        let of_image = [output, self.images].map(|shape| shape[1..].iter().product::<usize>());
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
                let mut places = [
                    at(output, [0, filter, row, column]),
                    at(self.images, [0, channel, y, x]),
                    element,
                ];
                for _ in 0..output[0] {
                    add(places);
                    places[OUTPUT] += of_image[OUTPUT];
                    places[IMAGES] += of_image[IMAGES];
                }
            }
        }
    }

    /// The sums of the products of two of the three tensors at the places of the third, and those of their absolute values.
    pub(super) fn on_host(&self, of: usize, [one, other]: [&[f64]; 2]) -> (Vec<f64>, Vec<f64>) {
        let shape = [self.output(), self.images, self.weight()][of];
        let elements = shape.iter().product();
        let (mut sums, mut sizes) = (vec![0.0; elements], vec![0.0; elements]);
        let (first, second) = [(IMAGES, WEIGHT), (OUTPUT, WEIGHT), (OUTPUT, IMAGES)][of];
        self.products(|places| {
            let term = one[places[first]] * other[places[second]];
            sums[places[of]] += term;
            sizes[places[of]] += term.abs();
        });
        (sums, sizes)
    }
}

impl Case {
    /// Asserts that sums of terms of such sizes, made of operands in a `dtype`, were rounded once. The kernels add in F32; Burn's own
    /// may add in low precision.
    pub(super) fn assert_rounded_once(
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
    pub(super) fn transposed(&self) -> ConvTransposeOptions<2> {
        let behind = |at| (self.output()[2 + at] - 1) * self.stride[at] + self.reach(at);
        let padding_out = [0, 1].map(|at| self.images[2 + at] + 2 * self.padding[at] - behind(at));
        let (stride, padding) = (self.stride, self.padding);
        ConvTransposeOptions::new(stride, padding, padding_out, self.dilation, self.groups)
    }
}

/// Asserts that sums of terms of such sizes were added in a dtype and rounded once.
pub(super) fn assert_sums(adds_in: DType, what: &str, found: &Float, sums: &[f64], sizes: &[f64]) {
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
pub(super) const OUTPUT: usize = 0;
pub(super) const IMAGES: usize = 1;
pub(super) const WEIGHT: usize = 2;
