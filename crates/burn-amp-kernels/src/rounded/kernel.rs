use burn_amp_core::formats::{Blocks, Format, Lines, Quantizer, Rounding, Scaling};
use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    names::Buffer,
    plan::{empty_on_device_of, one_each, storage},
    random::mixed,
};

const EXPONENT: u32 = 0x7f80_0000;
const MANTISSA: u32 = 0x007f_ffff;
const MAGNITUDE: u32 = EXPONENT | MANTISSA;
const MANTISSA_BITS: u32 = 23;
const BIAS: i32 = 127;

/// The largest scale that is a power of two, so that its reciprocal is a normal number as well as itself.
const MOST_EXPONENT: i32 = 126;

/// How the blocks of a tensor lie: so many numbers along a line and across lines, beside each other.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Tiles {
    /// The numbers along a line, from one to the next of which it is `along_stride`.
    along: usize,
    along_stride: usize,
    /// The numbers across the lines.
    across: usize,
    across_stride: usize,
    inner_stride: usize,
    /// The numbers of a block along a line and across.
    block_along: usize,
    block_across: usize,
}

/// The exponent of a number that is not zero, not subnormal and finite.
#[cube]
fn exponent(x: f32) -> i32 {
    i32::cast_from((f32::to_bits(x) & EXPONENT) >> MANTISSA_BITS) - BIAS
}

/// A power of two that is a normal number.
#[cube]
fn power(exponent: i32) -> f32 {
    f32::from_bits(u32::cast_from(exponent + BIAS) << MANTISSA_BITS)
}

/// The number of the format nearest to `x`, ties to even, or that above or below by random bits; beyond the range the largest
/// one.
#[cube]
fn round(x: f32, random: u32, #[comptime] format: Format, #[comptime] rounding: Rounding) -> f32 {
    let grid = comptime!(format.grid());
    let most = f32::new(comptime!(format.max() as f32));
    let exponent = max(exponent(x), comptime!(grid.least_exponent));
    let steps = x * power(comptime!(grid.mantissa) - exponent);
    let below = f32::floor(steps);
    let rest = steps - below;
    let rounds_up = match rounding {
        Rounding::Nearest => {
            let is_odd = below - 2.0 * f32::floor(below * 0.5) > 0.5;
            rest > 0.5 || (rest == 0.5 && is_odd)
        }
        Rounding::Stochastic => f32::cast_from(random >> 8u32) < rest * 16777216.0,
    };
    let rounded =
        (below + select(rounds_up, 1.0f32, 0.0f32)) * power(exponent - comptime!(grid.mantissa));
    min(max(rounded, -most), most)
}

/// The scale of a block, and what its numbers are multiplied by instead of being divided by it where that is exact.
#[cube]
fn scale(
    most: f32,
    of_tensor: f32,
    #[comptime] format: Format,
    #[comptime] scaling: Scaling,
) -> (f32, f32) {
    let largest = f32::new(comptime!(format.max() as f32));
    let mut scale = f32::new(1.0);
    let mut inverse = f32::new(1.0);
    match scaling {
        Scaling::None => {}
        Scaling::Real => {
            scale = max(most / largest, f32::new(f32::MIN_POSITIVE));
        }
        Scaling::PowerDown | Scaling::PowerUp => {
            let rounds_up = comptime!(scaling == Scaling::PowerUp);
            // CubeCL cannot take the bits of a constant on the device.
            let bits = comptime!((format.max() as f32).to_bits());
            let mut by = exponent(most) - comptime!((bits >> MANTISSA_BITS) as i32 - BIAS);
            if rounds_up && (f32::to_bits(most) & MANTISSA) > comptime!(bits & MANTISSA) {
                by += 1;
            }
            let by = min(
                max(by, -MOST_EXPONENT),
                i32::new(comptime!(MOST_EXPONENT as i64)),
            );
            scale = power(by);
            inverse = power(-by);
        }
        Scaling::E4M3 => {
            let is_finite = (f32::to_bits(of_tensor) & EXPONENT) < EXPONENT;
            let of_tensor = select(is_finite, of_tensor / (largest * 448.0), 1.0);
            let scale_of_block = most / largest / of_tensor;
            let rounded = round(scale_of_block, 0u32, Format::E4M3, Rounding::Nearest);
            scale = max(rounded, 0.001953125f32) * of_tensor;
        }
    }
    (scale, inverse)
}

/// Each unit rounds one block: first it looks for the largest number, then it rounds all. Of a tensor that is one block, each unit
/// rounds one number.
#[cube(launch)]
fn rounded_kernel<F: Float>(
    x: &Buffer<F>,
    most: &Buffer<f32>,
    output: &mut Buffer<f32>,
    tiles: Tiles,
    blocks: usize,
    #[comptime] format: Format,
    #[comptime] scaling: Scaling,
    #[comptime] rounding: Rounding,
    #[comptime] is_whole: bool,
    #[define(F)] _dtype: StorageType,
) {
    if ABSOLUTE_POS >= blocks {
        terminate!();
    }
    let blocks_along = tiles.along.div_ceil(tiles.block_along);
    let blocks_across = tiles.across.div_ceil(tiles.block_across);
    let first = ABSOLUTE_POS % blocks_along * tiles.block_along;
    let rest = ABSOLUTE_POS / blocks_along;
    let first_across = rest % blocks_across * tiles.block_across;
    let start = rest / blocks_across * tiles.inner_stride;
    let end = min(first + tiles.block_along, tiles.along);
    let end_across = min(first_across + tiles.block_across, tiles.across);

    let mut bits = 0u32;
    if is_whole {
        bits = f32::to_bits(most[0]);
    } else {
        for j in first_across..end_across {
            for i in first..end {
                let at = start + j * tiles.across_stride + i * tiles.along_stride;
                // Numbers that are not negative have the order of their bits.
                bits = max(bits, f32::to_bits(f32::cast_from(x[at])) & MAGNITUDE);
            }
        }
    }
    let bits = bits & MAGNITUDE;
    let mut factor = f32::new(1.0);
    let mut inverse = f32::new(1.0);
    // Subnormal numbers count as zeros.
    if bits > MANTISSA && bits < EXPONENT {
        let of_tensor = if comptime!(scaling == Scaling::E4M3) {
            most[0]
        } else {
            f32::new(1.0)
        };
        let (of_block, of_inverse) = scale(f32::from_bits(bits), of_tensor, format, scaling);
        factor = of_block;
        inverse = of_inverse;
    }
    for j in first_across..end_across {
        for i in first..end {
            let at = start + j * tiles.across_stride + i * tiles.along_stride;
            let x = f32::cast_from(x[at]);
            let is_finite = (f32::to_bits(x) & EXPONENT) < EXPONENT;
            let scaled = match scaling {
                Scaling::None => x,
                Scaling::PowerDown | Scaling::PowerUp => x * inverse,
                Scaling::Real | Scaling::E4M3 => x / factor,
            };
            let random = mixed(f32::to_bits(x) ^ mixed(at as u32));
            let rounded = round(scaled, random, format, rounding) * factor;
            output[at] = select(is_finite, rounded, x);
        }
    }
}

/// Launches the rounding. `most` is the largest absolute value of the tensor, where scales depend on it.
pub(super) fn rounded<R: CubeRuntime>(
    x: CubeTensor<R>,
    most: Option<CubeTensor<R>>,
    quantizer: Quantizer,
    lines: Lines,
) -> CubeTensor<R> {
    let output = empty_on_device_of(&x, x.shape(), DType::F32);
    if x.meta.num_elements() == 0 {
        return output;
    }
    let Lines([before, along, behind]) = lines;
    let (block_along, block_across) = match quantizer.blocks {
        Blocks::Tensor => (1, 1),
        Blocks::Row => (along, 1),
        Blocks::Along(size) => (size, 1),
        Blocks::Square(size) => (size, size),
    };
    let line = along * behind;
    let (across, inner, across_stride, inner_stride) = match before {
        1 => (behind, 1, 1, line),
        _ => (before, behind, line, 1),
    };
    let blocks = along.div_ceil(block_along) * across.div_ceil(block_across) * inner;
    let (cubes, units) = one_each(&output.client, blocks);
    let dtype = storage(x.dtype);
    let most = most.unwrap_or_else(|| empty_on_device_of(&x, [1].into(), DType::F32));
    rounded_kernel::launch::<R>(
        &output.client,
        cubes,
        units,
        into_contiguous(x).into_array_arg(),
        into_contiguous(most).into_array_arg(),
        output.clone().into_array_arg(),
        TilesLaunch::new(
            along,
            behind,
            across,
            across_stride,
            inner_stride,
            block_along,
            block_across,
        ),
        blocks,
        quantizer.format,
        quantizer.scaling,
        quantizer.rounding,
        quantizer.blocks == Blocks::Tensor,
        dtype,
    );
    output
}
