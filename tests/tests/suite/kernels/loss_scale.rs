//! The scale on the device, compared with `LossScaling::next`, and gradients that are unscaled by it.

use burn_amp::config::LossScaling;
use burn_amp_kernels::loss_scale;
use burn_amp_tests::prelude::*;

use super::{dtypes, float, rows};

type Float = FloatTensor<Plain>;

fn tensor(values: &[f32]) -> Float {
    Plain::float_from_data(TensorData::from(values), &here())
}

fn read(tensor: Float) -> Vec<f32> {
    let data = read_sync(Plain::float_into_data(tensor)).unwrap();
    data.iter::<f32>().collect()
}

#[test]
fn the_scale_moves_as_on_the_host() {
    let scalings = [
        DynamicLossScale::default(),
        DynamicLossScale {
            init: 8.0,
            search: false,
            growth_factor: 4.0,
            backoff_factor: 0.25,
            growth_interval: 3,
            hysteresis: 3,
            min: 0.5,
            max: 64.0,
            patience: 1,
        },
        DynamicLossScale {
            init: 2f32.powi(126),
            growth_interval: 1,
            max: 2f32.powi(127),
            ..DynamicLossScale::default()
        },
    ];
    for scaling in scalings {
        // Several overflows and several finite steps in a row.
        moves_as_on_the_host(scaling, (0..60).map(|step| (step * step) % 7 < 3));
    }
}

/// Asserts that the kernel and its reference move the state as the host does, bit for bit.
fn moves_as_on_the_host(scaling: DynamicLossScale, steps: impl Iterator<Item = bool>) {
    let host = LossScaling::from(scaling);
    let mut expected = host.start();
    let mut kernel = tensor(&loss_scale::state(expected));
    let mut reference = kernel.clone();
    for (step, overflows) in steps.enumerate() {
        // Lists of flags of various lengths.
        let mut flags = vec![0.0; 1 + step % 5];
        if overflows {
            *flags.last_mut().unwrap() = 1.0;
        }
        expected = host.next(expected, Outcome::of(overflows));
        kernel = loss_scale::next::<Plain>(kernel, tensor(&flags), scaling);
        reference = loss_scale::next::<References>(reference, tensor(&flags), scaling);
        let mut expected = loss_scale::state(expected);
        expected[3] = f32::from(u8::from(overflows));
        assert_eq!(read(kernel.clone()), expected, "{scaling:?}, step {step}");
        assert_eq!(
            read(reference.clone()),
            expected,
            "{scaling:?}, step {step}"
        );
    }
}

#[test]
fn the_scale_moves_as_on_the_host_in_random_sequences() {
    const SEQUENCES: usize = if cfg!(feature = "cubecl") { 20 } else { 300 };

    let mut state = 77u32;
    let mut below = |n: u32| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) % n
    };
    for _ in 0..SEQUENCES {
        let exponent = below(40) as i32 - 15;
        let scaling = DynamicLossScale {
            init: 2f32.powi(exponent),
            search: below(2) == 0,
            growth_factor: [2.0, 4.0][below(2) as usize],
            backoff_factor: [0.5, 0.25][below(2) as usize],
            growth_interval: 1 + below(4),
            hysteresis: 1 + below(3),
            min: 2f32.powi(exponent - below(30) as i32),
            max: 2f32.powi(exponent + below(30) as i32),
            patience: 1,
        };
        let overflowing = below(100);
        let steps: Vec<_> = (0..40).map(|_| below(100) < overflowing).collect();
        moves_as_on_the_host(scaling, steps.into_iter());
    }
}

#[test]
fn gradients_are_unscaled_or_zeros() {
    let before = tensor(&[64.0, 0.0, 1.0, 1.0, 0.0]);
    for dtype in dtypes().into_iter().filter(|dtype| *dtype != DType::F64) {
        for (overflowed, factor) in [(0.0, 1.0 / 64.0), (1.0, 0.0)] {
            let after = tensor(&[64.0, 0.0, 1.0, overflowed, 0.0]);
            for shape in [[1, 1, 1], [2, 3, 5], [4, 8, 64], [0, 2, 2]] {
                let elements: usize = shape.iter().product();
                let values: Vec<_> = (0..elements).map(|at| at as f64 - 7.0).collect();
                let (gradient, after) = (float(&values, shape, dtype), after.clone());
                for unscale in [
                    loss_scale::unscale_unless_overflowed::<Plain>,
                    loss_scale::unscale_unless_overflowed::<References>,
                ] {
                    let unscaled = unscale(gradient.clone(), before.clone(), after.clone());
                    assert_eq!(
                        (unscaled.dtype(), unscaled.shape().as_slice()),
                        (DType::F32, shape.as_slice())
                    );
                    let values = rows::read(&float(&values, shape, dtype));
                    let expected: Vec<_> = values.iter().map(|value| value * factor).collect();
                    assert_eq!(rows::read(&unscaled), expected);
                }
            }
            // After an overflow, inf and NaN become zeros too.
            let bad = float(&[f64::INFINITY, f64::NAN, 1.0], [3], dtype);
            let unscaled =
                loss_scale::unscale_unless_overflowed::<Plain>(bad, before.clone(), after);
            let expected = [f32::INFINITY, f32::NAN, 1.0].map(|x| match overflowed == 1.0 {
                true => 0.0,
                false => x / 64.0,
            });
            assert_eq!(bits(&read(unscaled)), bits(&expected));
        }
    }
}

/// The bits of each number, or `None` for NaN, which has many encodings.
fn bits(values: &[f32]) -> Vec<Option<u32>> {
    values
        .iter()
        .map(|x| (!x.is_nan()).then_some(x.to_bits()))
        .collect()
}
