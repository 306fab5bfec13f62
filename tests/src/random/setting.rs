//! What a program needs besides its operands: the device, constants and masks.

use super::all::*;
use super::rng;

/// The device on which a program runs.
#[derive(Clone)]
pub struct Setting<B: Backend> {
    pub device: Device<B>,
}

/// Where a mask is true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mask {
    /// At random places.
    Random(u64),
    /// At no place, or everywhere.
    All(bool),
    /// Where a tensor is above a number.
    Above(f64),
    /// Where a tensor is not above a number.
    NotAbove(f64),
    /// Where the absolute value of a tensor is below a number.
    Near(f64),
}

impl<B: Backend> Setting<B> {
    /// A tensor of random numbers between -1 and 1.
    pub fn noise(&self, shape: Vec<usize>, seed: u64) -> FloatTensor<B> {
        let values = rng::noise(seed, shape.iter().product());
        B::float_from_data(TensorData::new(values, shape), &self.device)
    }

    /// Random numbers between -1 and 1, of the shape and dtype of `x`.
    pub fn noise_like(&self, x: &FloatTensor<B>, seed: u64) -> FloatTensor<B> {
        let noise = self.noise(x.shape().to_vec(), seed);
        self.as_dtype(noise, x.dtype())
    }

    /// Casts a tensor that has another dtype.
    pub fn as_dtype(&self, x: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
        if x.dtype() == dtype {
            x
        } else {
            B::float_cast(x, dtype.into())
        }
    }

    /// So many random whole numbers below `end`.
    pub fn indices(&self, shape: Vec<usize>, end: usize, seed: u64) -> IntTensor<B> {
        let mut rng = rng::Rng::new(seed);
        let len = shape.iter().product();
        let values: Vec<i64> = (0..len).map(|_| rng.below(end.max(1)) as i64).collect();
        let data = TensorData::new(values, shape);
        B::int_from_data(data.convert_dtype(self.int_dtype().into()), &self.device)
    }

    /// A mask of the shape of `x`.
    pub fn mask(&self, mask: Mask, x: &FloatTensor<B>) -> BoolTensor<B> {
        let bool_dtype = self.bool_dtype();
        match mask {
            Mask::Random(seed) => self.bools(x, |noise| noise > 0.3, seed),
            Mask::All(value) => self.bools(x, |_| value, 0),
            Mask::Above(limit) => B::float_greater_elem(x.clone(), limit.into(), bool_dtype),
            Mask::NotAbove(limit) => {
                B::bool_not(B::float_greater_elem(x.clone(), limit.into(), bool_dtype))
            }
            Mask::Near(limit) => B::bool_and(
                B::float_lower_elem(x.clone(), limit.into(), bool_dtype),
                B::float_greater_elem(x.clone(), (-limit).into(), bool_dtype),
            ),
        }
    }

    fn bools(&self, x: &FloatTensor<B>, is_true: impl Fn(f32) -> bool, seed: u64) -> BoolTensor<B> {
        let shape = x.shape();
        let values = rng::noise(seed, shape.num_elements());
        let values: Vec<bool> = values.into_iter().map(is_true).collect();
        let data = TensorData::new(values, shape);
        B::bool_from_data(data.convert_dtype(self.bool_dtype().into()), &self.device)
    }

    /// Ones and zeros in place of true and false, in the dtype of `x`.
    pub fn ones_where(&self, mask: BoolTensor<B>, x: &FloatTensor<B>) -> FloatTensor<B> {
        B::bool_into_float(mask, x.dtype().into())
    }

    /// The dtype of the device's ints.
    pub fn int_dtype(&self) -> IntDType {
        get_device_settings::<B>(&self.device).int_dtype
    }

    /// The dtype of the device's bools.
    pub fn bool_dtype(&self) -> BoolDType {
        get_device_settings::<B>(&self.device).bool_dtype
    }
}

impl Literal for Mask {
    fn literal(&self) -> String {
        match self {
            Self::Random(seed) => format!("Mask::Random({})", seed.literal()),
            Self::All(value) => format!("Mask::All({value})"),
            Self::Above(limit) => format!("Mask::Above({})", limit.literal()),
            Self::NotAbove(limit) => format!("Mask::NotAbove({})", limit.literal()),
            Self::Near(limit) => format!("Mask::Near({})", limit.literal()),
        }
    }
}
