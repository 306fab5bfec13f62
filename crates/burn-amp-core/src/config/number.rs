//! The ranges of the numbers.

use std::ops::RangeInclusive;

use super::{ConfigError, Found, Place};

/// The powers of two that a key takes.
pub(super) struct Powers {
    range: RangeInclusive<f32>,
    /// What an error says is allowed.
    pub(super) expected: &'static str,
}

/// A scale is normal in F32, so that its reciprocal is finite; that of 2^127 is subnormal, and not zero.
pub(super) const SCALE: Powers = Powers {
    range: f32::MIN_POSITIVE..=LARGEST,
    expected: "a power of two from 2^-126 to 2^127",
};

/// What the scale grows by.
pub(super) const GROWTH_FACTOR: Powers = Powers {
    range: 2.0..=LARGEST,
    expected: "a power of two of at least 2",
};

/// What the scale backs off by.
pub(super) const BACKOFF_FACTOR: Powers = Powers {
    range: f32::MIN_POSITIVE..=0.5,
    expected: "a power of two above 0 and below 1",
};

/// 2^127, the largest power of two in F32.
const LARGEST: f32 = f32::from_bits(0x7f00_0000);

/// `x` in F32, if it is one of `powers`.
pub(super) fn power_of_two(
    x: f64,
    powers: &Powers,
    place: impl FnOnce() -> Box<Place>,
) -> Result<f32, ConfigError> {
    let scale = x as f32;
    let unexpected = |place| ConfigError::Unexpected {
        place,
        expected: powers.expected,
        found: Found::Number(x),
    };
    if !scale.is_normal() || scale < 0.0 {
        return Err(unexpected(place()));
    }
    let below = f32::from_bits(scale.to_bits() & !MANTISSA);
    if below != scale {
        let above = 2.0 * below; // inf past the largest, and then further away
        let nearest = match scale - below < above - scale {
            true => below,
            false => above,
        };
        return Err(ConfigError::NotPowerOfTwo {
            place: place(),
            found: x,
            nearest: nearest.clamp(*powers.range.start(), *powers.range.end()),
        });
    }
    match powers.range.contains(&scale) {
        true => Ok(scale),
        false => Err(unexpected(place())),
    }
}

/// The bits of an F32 below its leading one.
const MANTISSA: u32 = (1 << 23) - 1;

/// What an error says is allowed where steps are counted.
pub(super) const COUNT: &str = "a whole number of at least 1";

/// `n` as a number of steps.
pub(super) fn count(n: i128, place: impl FnOnce() -> Box<Place>) -> Result<u32, ConfigError> {
    match u32::try_from(n) {
        Ok(n) if n >= 1 => Ok(n),
        Ok(_) | Err(_) => Err(ConfigError::Unexpected {
            place: place(),
            expected: match n > i128::from(u32::MAX) {
                true => "a whole number of at most 4294967295",
                false => COUNT,
            },
            found: Found::Whole(n),
        }),
    }
}
