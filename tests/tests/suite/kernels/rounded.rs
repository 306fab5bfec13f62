//! Tensors in formats of eight bits and fewer, as the host rounds them.

use burn_amp_core::formats::{Blocks, Format, Lines, Quantizer, Recipe, Rounding, Scaling};
use burn_amp_kernels::rounded;

use super::prelude::*;

/// Every format with every kind of block and scale, rounded to the nearest and, in one kind of block, stochastically; and the
/// quantizers of all recipes.
fn quantizers() -> Vec<Quantizer> {
    let blocks = [
        Blocks::Tensor,
        Blocks::Row,
        Blocks::Along(4),
        Blocks::Square(4),
    ];
    let scalings = [
        Scaling::None,
        Scaling::Real,
        Scaling::PowerDown,
        Scaling::PowerUp,
        Scaling::E4M3,
    ];
    let mut all: Vec<_> = Format::ALL
        .into_iter()
        .flat_map(|format| blocks.map(|blocks| (format, blocks)))
        .flat_map(|(format, blocks)| scalings.map(|scaling| (format, blocks, scaling)))
        .flat_map(|(format, blocks, scaling)| {
            let is_drawn = blocks == Blocks::Along(4);
            let roundings = [
                Some(Rounding::Nearest),
                is_drawn.then_some(Rounding::Stochastic),
            ];
            let roundings = roundings.into_iter().flatten();
            roundings.map(move |rounding| Quantizer {
                format,
                blocks,
                scaling,
                rounding,
            })
        })
        .collect();
    let recipes = Recipe::ALL.iter();
    all.extend(recipes.flat_map(|recipe| [recipe.activation, recipe.weight, recipe.gradient]));
    all
}

/// Asserts that the device and the reference round a tensor as the host does, to the same numbers.
#[track_caller]
fn assert_rounded(x: &Float, lines: Lines) {
    let values = read(x);
    for quantizer in quantizers() {
        let expected = quantizer.quantize(&values, lines).values;
        let found = rounded::forward::<Plain>(x.clone(), quantizer, lines);
        assert_eq!(found.dtype(), DType::F32);
        let found = read(&found);
        // Zeros may have another sign.
        let is_same =
            |found: f64, expected: f64| found == expected || found.is_nan() && expected.is_nan();
        let differ = found
            .iter()
            .zip(&expected)
            .position(|(found, expected)| !is_same(*found, f64::from(*expected as f32)));
        assert!(
            differ.is_none(),
            "{quantizer:?} {lines:?} of {:?}: {:?}",
            x.dtype(),
            differ.map(|at| (values[at], found[at], expected[at])),
        );
    }
}

#[test]
fn tensors_are_rounded_as_the_host_rounds_them() {
    for dtype in dtypes() {
        for lines in [
            [1, 9, 5],
            [6, 9, 1],
            [3, 10, 4],
            [1, 1, 1],
            [2, 0, 3],
            [1, 150, 40],
            [33, 140, 1],
        ] {
            let size = lines.iter().product();
            assert_rounded(&noisy(&[size], 1, dtype), Lines(lines));
        }
    }
}

#[test]
fn every_number_in_half_precision_is_rounded() {
    for dtype in dtypes() {
        if !matches!(dtype, DType::F16 | DType::BF16) {
            continue;
        }
        // Without those that are subnormal in F32 or near it, which no scale of a GPU reaches, and without NaN, beside which backends
        // disagree on the largest value of a tensor.
        let all = (0..=u16::MAX).map(|bits| match dtype {
            DType::F16 => f64::from(burn::tensor::f16::from_bits(bits)),
            _ => f64::from(burn::tensor::bf16::from_bits(bits)),
        });
        let all: Vec<f64> = all
            .map(|x| {
                if x.abs() < 1e-30 || x.is_nan() {
                    0.0
                } else {
                    x
                }
            })
            .collect();
        let finite: Vec<f64> = all
            .iter()
            .map(|x| if x.is_finite() { *x } else { 1.0 })
            .collect();
        for values in [all, finite] {
            let x = tensor(&values, &[values.len()], dtype);
            assert_rounded(&x, Lines([1, 256, 256]));
        }
    }
}

#[test]
fn what_is_not_finite_stays() {
    for dtype in dtypes() {
        let values = [1.0, f64::NAN, 3.0, f64::NEG_INFINITY, 5.0, f64::INFINITY];
        let x = tensor(&values, &[values.len()], dtype);
        for quantizer in quantizers() {
            let found = read(&rounded::forward::<Plain>(
                x.clone(),
                quantizer,
                Lines([1, 6, 1]),
            ));
            for (found, x) in found.into_iter().zip(values) {
                let is_kept = x.is_finite() || found == x || found.is_nan() && x.is_nan();
                assert!(is_kept, "{quantizer:?}: {found}, not {x}");
            }
        }
    }
}
