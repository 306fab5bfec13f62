//! The chain inside a kernel.

use cubecl::prelude::*;

use super::End;
use crate::{
    activation::{Activation, slope, value},
    cube::names::{OwnedBuffer, are_at_most, are_less},
};

/// A place in the four dimensions that a kernel distinguishes, or their sizes. In elements, outermost first.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Point {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
}

/// A tensor of the shape of `x` whose dimensions are in the order of those of `x` in memory. Its rows may be padded, as those that
/// CubeCL's products write on CUDA are.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Ordered<X: Float, N: Size> {
    values: OwnedBuffer<Vector<X, N>>,
    /// The vectors of a row, if rows are padded.
    row: usize,
    /// The vectors from the start of one row to the start of the next, if rows are padded.
    pitch: usize,
    #[cube(comptime)]
    is_padded: bool,
}

#[cube]
impl<X: Float, N: Size> Ordered<X, N> {
    /// The vector of a number.
    pub fn at(&self, vector: usize) -> Vector<f32, N> {
        let mut place = vector;
        if comptime!(self.is_padded) {
            place = vector / self.row * self.pitch + vector % self.row;
        }
        Vector::cast_from(self.values[place])
    }
}

/// A tensor that varies along some of the dimensions only.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factor<N: Size> {
    /// The values if they vary along the last dimension.
    vectors: ComptimeOption<OwnedBuffer<Vector<f32, N>>>,
    /// The values if they do not.
    scalars: ComptimeOption<OwnedBuffer<f32>>,
    /// The dimensions along which they vary, as bits.
    #[cube(comptime)]
    varies: u32,
}

/// A chain: its factors, and how they lie in the four dimensions.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factors<N: Size> {
    pub before: ComptimeOption<Factor<N>>,
    pub scale: ComptimeOption<Factor<N>>,
    pub rescale: ComptimeOption<Factor<N>>,
    pub after: ComptimeOption<Factor<N>>,
    /// Which of the factors there are, see [`given`](crate::cube::plan::given).
    #[cube(comptime)]
    #[allow(dead_code, reason = "it tells kernels apart")]
    pub given: u32,
    /// The sizes of the dimensions.
    pub sizes: Point,
    /// Whether `scale` divides.
    #[cube(comptime)]
    pub divides: bool,
    #[cube(comptime)]
    pub end: End,
}

#[cube]
impl<N: Size> Factors<N> {
    /// The place of a vector.
    pub fn point(&self, vector: usize) -> Point {
        let sizes = self.sizes;
        let element = vector * N::value();
        let d = element % sizes.d;
        let rest = element / sizes.d;
        let c = rest % sizes.c;
        let rest = rest / sizes.c;
        Point {
            a: rest / sizes.b,
            b: rest % sizes.b,
            c,
            d,
        }
    }

    /// `x + before`
    pub fn centered(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        plus::<N>(x, &self.before, at, self.sizes)
    }

    /// `x · scale`, or `x / scale`.
    pub fn scaled(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        #[comptime]
        match &self.scale {
            ComptimeOption::Some(scale) => {
                let scale = scale.at(at, self.sizes);
                if comptime!(self.divides) {
                    x / scale
                } else {
                    x * scale
                }
            }
            ComptimeOption::None => x,
        }
    }

    /// `x · rescale`
    pub fn rescaled(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        #[comptime]
        match &self.rescale {
            ComptimeOption::Some(rescale) => x * rescale.at(at, self.sizes),
            ComptimeOption::None => x,
        }
    }

    /// The chain without its end, from `x + before`.
    pub fn chain(&self, centered: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        let y = self.scaled(centered, at);
        let y = self.rescaled(y, at);
        plus::<N>(y, &self.after, at, self.sizes)
    }

    /// The function that ends the chain.
    pub fn ended(&self, y: Vector<f32, N>) -> Vector<f32, N> {
        let end = comptime!(self.end);
        match end {
            End::Identity => y,
            End::Relu => select_many(are_less::<N>(y, Vector::new(0.0)), Vector::new(0.0), y),
            End::LeakyRelu(slope) => {
                let zero = Vector::new(0.0);
                let slope = Vector::new(f32::new(comptime!(slope.value())));
                // A negative number may be rounded to -0, so nothing else is.
                let at_zero = select_many(are_at_most::<N>(y, zero), zero, y);
                select_many(are_less::<N>(y, zero), y * slope, at_zero)
            }
            End::Clamp(bounds) => {
                let y = if comptime!(bounds.min().is_finite()) {
                    let min = Vector::new(f32::new(comptime!(bounds.min())));
                    select_many(are_less::<N>(y, min), min, y)
                } else {
                    y
                };
                if comptime!(bounds.max().is_finite()) {
                    let max = Vector::new(f32::new(comptime!(bounds.max())));
                    select_many(are_less::<N>(max, y), max, y)
                } else {
                    y
                }
            }
            End::Sigmoid => value::<N>(y, Activation::Sigmoid),
            End::Silu => y * value::<N>(y, Activation::Sigmoid),
        }
    }

    /// The gradient of the chain without its end, from that of the result.
    pub fn passed(
        &self,
        grad: Vector<f32, N>,
        centered: Vector<f32, N>,
        at: Point,
    ) -> Vector<f32, N> {
        let end = comptime!(self.end);
        let zero = Vector::<f32, N>::zeroed();
        match end {
            End::Identity => grad,
            End::Relu => {
                let y = self.chain(centered, at);
                select_many(are_at_most::<N>(y, zero), zero, grad)
            }
            End::LeakyRelu(slope) => {
                let y = self.chain(centered, at);
                let sloped = grad * Vector::new(f32::new(comptime!(slope.value())));
                let passed = if comptime!(slope.is_of_result()) {
                    // The reciprocal of -0 is negative.
                    let recip = Vector::new(1.0) / y;
                    select_many(are_less::<N>(recip, zero), sloped, grad)
                } else {
                    grad
                };
                select_many(are_less::<N>(y, zero), sloped, passed)
            }
            End::Clamp(bounds) => {
                let y = self.chain(centered, at);
                let grad = if comptime!(bounds.min().is_finite()) {
                    let min = Vector::new(f32::new(comptime!(bounds.min())));
                    select_many(are_less::<N>(y, min), zero, grad)
                } else {
                    grad
                };
                if comptime!(bounds.max().is_finite()) {
                    let max = Vector::new(f32::new(comptime!(bounds.max())));
                    select_many(are_less::<N>(max, y), zero, grad)
                } else {
                    grad
                }
            }
            End::Sigmoid => grad * slope::<N>(self.chain(centered, at), Activation::Sigmoid),
            End::Silu => {
                let y = self.chain(centered, at);
                let sigmoid = value::<N>(y, Activation::Sigmoid);
                let one = Vector::new(1.0);
                grad * (sigmoid * (one + y * (one - sigmoid)))
            }
        }
    }
}

/// The place in a tensor that varies along some of the dimensions only.
#[cube]
fn index(point: Point, sizes: Point, #[comptime] varies: u32) -> usize {
    let mut index = 0usize.runtime();
    if comptime!(varies & 1 != 0) {
        index = point.a;
    }
    if comptime!(varies & 2 != 0) {
        index = index * sizes.b + point.b;
    }
    if comptime!(varies & 4 != 0) {
        index = index * sizes.c + point.c;
    }
    if comptime!(varies & 8 != 0) {
        index = index * sizes.d + point.d;
    }
    index
}

#[cube]
impl<N: Size> Factor<N> {
    /// The values for one vector.
    pub fn at(&self, point: Point, sizes: Point) -> Vector<f32, N> {
        let first = index(point, sizes, comptime!(self.varies));
        #[comptime]
        let scalar = match &self.scalars {
            ComptimeOption::Some(scalars) => Vector::new(scalars[first]),
            ComptimeOption::None => Vector::zeroed(),
        };
        #[comptime]
        match &self.vectors {
            ComptimeOption::Some(vectors) => vectors[first / N::value()],
            ComptimeOption::None => scalar,
        }
    }
}

#[cube]
pub(super) fn plus<N: Size>(
    x: Vector<f32, N>,
    summand: &ComptimeOption<Factor<N>>,
    point: Point,
    sizes: Point,
) -> Vector<f32, N> {
    #[comptime]
    match summand {
        ComptimeOption::Some(summand) => x + summand.at(point, sizes),
        ComptimeOption::None => x,
    }
}
