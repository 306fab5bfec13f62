//! Float operands whose values are exact in every float dtype: multiples of 1/64 with at most eight significant bits.

use burn_backend::TensorData;

/// A float operand: its shape and values.
#[derive(Clone, Debug)]
pub struct Operand {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Operand {
    /// The values in F32.
    pub fn data(&self) -> TensorData {
        TensorData::new(self.values.clone(), self.shape.clone())
    }

    pub(super) fn of<const D: usize>(shape: [usize; D], values: &[f32]) -> Self {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        Self {
            shape: shape.into(),
            values: values.into(),
        }
    }

    fn from_fn<const D: usize>(shape: [usize; D], value: impl Fn(usize) -> f32) -> Self {
        let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
        Self::of(shape, &values)
    }

    /// Values between -2 and 2: up to 255 different ones, at least 1/64 apart.
    pub(super) fn signed<const D: usize>(seed: usize, shape: [usize; D]) -> Self {
        Self::from_fn(shape, |i| {
            ((37 * i + 11 * seed + 58) % 255) as f32 / 64.0 - 127.0 / 64.0
        })
    }

    /// Values from 1/64 to 2: up to 128 different ones.
    pub(super) fn positive<const D: usize>(seed: usize, shape: [usize; D]) -> Self {
        Self::from_fn(shape, |i| {
            ((37 * i + 11 * seed + 40) % 128 + 1) as f32 / 64.0
        })
    }

    /// Values of either sign, with magnitudes between 1/2 and 3/2.
    pub(super) fn away_from_zero<const D: usize>(seed: usize, shape: [usize; D]) -> Self {
        Self::from_fn(shape, |i| {
            let magnitude = ((37 * i + 11 * seed) % 64 + 32) as f32 / 64.0;
            if i % 3 == 0 { -magnitude } else { magnitude }
        })
    }

    /// Values greater than 1, up to 3.
    pub(super) fn above_one<const D: usize>(shape: [usize; D]) -> Self {
        Self::positive(0, shape).map(|x| x + 1.0)
    }

    /// Values between -1 and 1, exclusive.
    pub(super) fn unit<const D: usize>(seed: usize, shape: [usize; D]) -> Self {
        Self::signed(seed, shape).map(|x| x / 2.0)
    }

    /// Whole numbers from -2 to 2, so that some values are equal.
    pub(super) fn whole<const D: usize>(seed: usize, shape: [usize; D]) -> Self {
        Self::from_fn(shape, |i| ((3 * i + 2 * seed + i / 5) % 5) as f32 - 2.0)
    }

    pub(super) fn map(mut self, f: impl Fn(f32) -> f32) -> Self {
        self.values.iter_mut().for_each(|x| *x = f(*x));
        self
    }
}

#[cfg(test)]
mod tests {
    use burn_amp_core::{Op, Precision};

    use crate::{Plain, cases::Case};

    #[test]
    fn every_value_is_exact_in_every_dtype() {
        for op in Op::ALL {
            let operands = Case::<Plain>::of(*op)
                .into_iter()
                .flat_map(|case| case.operands);
            for x in operands.flat_map(|operand| operand.values) {
                let x = f64::from(x);
                for dtype in Precision::ALL {
                    assert!(x.is_nan() || dtype.round(x) == x, "{op}: {x} in {dtype}");
                }
            }
        }
    }
}
