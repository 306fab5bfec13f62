//! Random bits for stochastic rounding.

/// A bijection of 32 bits in which every bit of the result depends on every bit of the argument: two rounds of
/// multiplication and shift, with the constants of C. Wellons' `lowbias32`.
pub const fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(FACTORS[0]);
    let x = (x ^ (x >> 15)).wrapping_mul(FACTORS[1]);
    x ^ (x >> 16)
}

/// The factors of [`mixed`].
pub const FACTORS: [u32; 2] = [0x7feb_352d, 0x846c_a68b];
