//! The chain inside a kernel.

use crate::cube::names::{OwnedBuffer, are_at_most, with_element};
use cubecl::prelude::*;

/// A place in the four dimensions that a kernel distinguishes, or their sizes. In elements, outermost first.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Point {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
}

/// A tensor that varies along some of the dimensions only.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factor {
    values: OwnedBuffer<f32>,
    /// These dimensions, as bits.
    #[cube(comptime)]
    varies: u32,
}

/// A chain: its factors, and how they lie in the four dimensions.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factors {
    pub before: ComptimeOption<Factor>,
    pub scale: ComptimeOption<Factor>,
    pub rescale: ComptimeOption<Factor>,
    pub after: ComptimeOption<Factor>,
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
    pub relu: bool,
}

#[cube]
impl Factors {
    /// The place of a vector.
    pub fn point<N: Size>(&self, vector: usize) -> Point {
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
    pub fn centered<N: Size>(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        plus::<N>(x, &self.before, at, self.sizes)
    }

    /// `x · scale`, or `x / scale`.
    pub fn scaled<N: Size>(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        #[comptime]
        match &self.scale {
            ComptimeOption::Some(scale) => {
                let scale = scale.at::<N>(at, self.sizes);
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
    pub fn rescaled<N: Size>(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        #[comptime]
        match &self.rescale {
            ComptimeOption::Some(rescale) => x * rescale.at::<N>(at, self.sizes),
            ComptimeOption::None => x,
        }
    }

    /// The chain without its ReLU, from `x + before`.
    pub fn chain<N: Size>(&self, centered: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        let y = self.scaled::<N>(centered, at);
        let y = self.rescaled::<N>(y, at);
        plus::<N>(y, &self.after, at, self.sizes)
    }

    /// The gradient of the result, where the ReLU let it pass.
    pub fn passed<N: Size>(
        &self,
        grad: Vector<f32, N>,
        centered: Vector<f32, N>,
        at: Point,
    ) -> Vector<f32, N> {
        if comptime!(self.relu) {
            let y = self.chain::<N>(centered, at);
            select_many(
                are_at_most::<N>(y, Vector::new(0.0)),
                Vector::new(0.0),
                grad,
            )
        } else {
            grad
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
impl Factor {
    /// The values for one vector.
    pub fn at<N: Size>(&self, point: Point, sizes: Point) -> Vector<f32, N> {
        let varies = comptime!(self.varies);
        let first = index(point, sizes, varies);
        if comptime!(varies & 8 != 0) {
            let mut values = Vector::<f32, N>::zeroed();
            #[unroll]
            for i in 0..N::value() {
                values = with_element::<f32, N>(values, i, self.values[first + i]);
            }
            values
        } else {
            Vector::new(self.values[first])
        }
    }
}

#[cube]
pub(super) fn plus<N: Size>(
    x: Vector<f32, N>,
    summand: &ComptimeOption<Factor>,
    point: Point,
    sizes: Point,
) -> Vector<f32, N> {
    #[comptime]
    match summand {
        ComptimeOption::Some(summand) => x + summand.at::<N>(point, sizes),
        ComptimeOption::None => x,
    }
}
