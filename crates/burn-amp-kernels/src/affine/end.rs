//! The function that ends a chain.

use crate::prelude::*;

/// A function of each element `y` of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// `y`
    Identity,
    /// 0 where `y` is negative.
    Relu,
    /// `slope · y` where `y` is negative.
    LeakyRelu(Slope),
    /// The next bound where `y` is beyond it.
    Clamp(Bounds),
    /// `1 / (1 + exp(-y))`
    Sigmoid,
    /// `y / (1 + exp(-y))`, which is also called swish.
    Silu,
}

/// The bounds of a clamp, by their bits: kernels are told apart by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    min: u32,
    max: u32,
}

/// The slope of a leaky ReLU, by its bits: kernels are told apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slope {
    bits: u32,
    /// Whether `y` is the result, which is written so that its sign tells on which side of 0 the operand was.
    is_of_result: bool,
}

impl Slope {
    /// A positive slope; `None` for another one, with which the sign of a result would say nothing.
    pub fn new(slope: f32) -> Option<Self> {
        (slope > 0.0 && slope.is_finite()).then(|| Self {
            bits: slope.to_bits(),
            is_of_result: false,
        })
    }

    /// The slope.
    pub fn value(&self) -> f32 {
        f32::from_bits(self.bits)
    }

    /// Whether a function of its own result has this slope.
    #[cfg(feature = "cubecl")]
    pub(super) fn is_of_result(&self) -> bool {
        self.is_of_result
    }
}

impl Bounds {
    /// Bounds that are finite, or infinite where there is none; `None` for others, which a kernel does not know.
    pub fn new(min: f32, max: f32) -> Option<Self> {
        let is_known = min < f32::INFINITY && max > f32::NEG_INFINITY;
        is_known.then(|| Self {
            min: min.to_bits(),
            max: max.to_bits(),
        })
    }

    /// The lower bound.
    pub fn min(&self) -> f32 {
        f32::from_bits(self.min)
    }

    /// The upper bound.
    pub fn max(&self) -> f32 {
        f32::from_bits(self.max)
    }
}

impl End {
    /// The function whose gradient is that of this one, but computed from the result in the place of `y`; `None` if the result does
    /// not say enough.
    pub(super) fn of_result(self) -> Option<Self> {
        match self {
            Self::Relu => Some(Self::Relu),
            Self::LeakyRelu(slope) => Some(Self::LeakyRelu(Slope {
                is_of_result: true,
                ..slope
            })),
            Self::Identity | Self::Clamp(_) | Self::Sigmoid | Self::Silu => None,
        }
    }

    /// The function of an F32 tensor.
    pub(super) fn of<B: Backend>(&self, y: FloatTensor<B>) -> FloatTensor<B> {
        match self {
            Self::Identity => y,
            Self::Relu => B::relu(y),
            Self::LeakyRelu(slope) => {
                let result = B::leaky_relu(y.clone(), slope.value().into());
                // A negative number may be rounded to -0, so nothing else is.
                let bools = bool_dtype::<B>(&y);
                B::float_mask_fill(
                    result,
                    B::float_equal_elem(y, 0f32.into(), bools),
                    0f32.into(),
                )
            }
            Self::Clamp(bounds) => B::float_clamp(y, bounds.min().into(), bounds.max().into()),
            Self::Sigmoid => B::sigmoid(y),
            Self::Silu => B::float_mul(y.clone(), B::sigmoid(y)),
        }
    }

    /// How far a result is from the bounds beyond which no gradient passes: 0 or less where none does.
    pub(super) fn room<B: Backend>(&self, result: FloatTensor<B>) -> FloatTensor<B> {
        let Self::Clamp(bounds) = self else {
            return result;
        };
        let above = B::float_sub_scalar(result.clone(), bounds.min().into());
        let below = B::float_add_scalar(B::float_neg(result), bounds.max().into());
        // Each is 0 or more, and infinite without a bound.
        let is_above = B::float_greater(above.clone(), below.clone(), bool_dtype::<B>(&above));
        B::float_mask_where(above, is_above, below)
    }

    /// The gradient with respect to `y`, of which both are F32, from that of the result. Without an end `y` is not computed.
    pub(super) fn passed<B: Backend>(
        &self,
        y: impl FnOnce() -> FloatTensor<B>,
        grad: FloatTensor<B>,
    ) -> FloatTensor<B> {
        let stopped = |grad, mask| B::float_mask_fill(grad, mask, 0f32.into());
        let rest = |sigmoid| B::float_add_scalar(B::float_neg(sigmoid), 1f32.into());
        match self {
            Self::Identity => grad,
            Self::Relu => {
                let y = y();
                let bools = bool_dtype::<B>(&y);
                stopped(grad, B::float_lower_equal_elem(y, 0f32.into(), bools))
            }
            Self::LeakyRelu(slope) => {
                let y = y();
                let bools = bool_dtype::<B>(&y);
                let is_negative = B::float_lower_elem(y.clone(), 0f32.into(), bools);
                let is_negative = match slope.is_of_result {
                    // The reciprocal of -0 is negative.
                    true => {
                        let recip = B::float_recip(y);
                        B::bool_or(is_negative, B::float_lower_elem(recip, 0f32.into(), bools))
                    }
                    false => is_negative,
                };
                let sloped = B::float_mul_scalar(grad.clone(), slope.value().into());
                B::float_mask_where(grad, is_negative, sloped)
            }
            Self::Clamp(bounds) => {
                let y = y();
                let bools = bool_dtype::<B>(&y);
                let below = B::float_lower_elem(y.clone(), bounds.min().into(), bools);
                let above = B::float_greater_elem(y, bounds.max().into(), bools);
                stopped(stopped(grad, below), above)
            }
            Self::Sigmoid => {
                let sigmoid = B::sigmoid(y());
                B::float_mul(grad, B::float_mul(sigmoid.clone(), rest(sigmoid)))
            }
            Self::Silu => {
                let y = y();
                let sigmoid = B::sigmoid(y.clone());
                let slope = B::float_mul(y, rest(sigmoid.clone()));
                let slope = B::float_mul(sigmoid, B::float_add_scalar(slope, 1f32.into()));
                B::float_mul(grad, slope)
            }
        }
    }
}
