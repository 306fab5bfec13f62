//! The chain inside a kernel.

use cubecl::prelude::*;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    /// The dimensions along which each factor varies, as bits: before, scale, rescale, after.
    pub before: u32,
    pub scale: u32,
    pub rescale: u32,
    pub after: u32,
    /// Whether `scale` divides.
    pub divides: bool,
    pub relu: bool,
}

/// A place in the four dimensions that a kernel distinguishes, or their sizes. In elements, outermost first.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Point {
    pub a: usize,
    pub b: usize,
    pub c: usize,
    pub d: usize,
}

/// A chain: its factors, and how they lie in the four dimensions.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Factors {
    pub before: ComptimeOption<Array<f32>>,
    pub scale: ComptimeOption<Array<f32>>,
    pub rescale: ComptimeOption<Array<f32>>,
    pub after: ComptimeOption<Array<f32>>,
    /// The sizes of the dimensions.
    pub sizes: Point,
    #[cube(comptime)]
    pub of: Chain,
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
        plus::<N>(x, &self.before, at, self.sizes, comptime!(self.of.before))
    }

    /// `x · scale`, or `x / scale`.
    pub fn scaled<N: Size>(&self, x: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        #[comptime]
        match &self.scale {
            ComptimeOption::Some(scale) => {
                let scale = factor::<N>(scale, at, self.sizes, comptime!(self.of.scale));
                if comptime!(self.of.divides) {
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
            ComptimeOption::Some(rescale) => {
                x * factor::<N>(rescale, at, self.sizes, comptime!(self.of.rescale))
            }
            ComptimeOption::None => x,
        }
    }

    /// The chain without its ReLU, from `x + before`.
    pub fn chain<N: Size>(&self, centered: Vector<f32, N>, at: Point) -> Vector<f32, N> {
        let y = self.scaled::<N>(centered, at);
        let y = self.rescaled::<N>(y, at);
        plus::<N>(y, &self.after, at, self.sizes, comptime!(self.of.after))
    }

    /// The gradient of the result, where the ReLU let it pass.
    pub fn passed<N: Size>(
        &self,
        grad: Vector<f32, N>,
        centered: Vector<f32, N>,
        at: Point,
    ) -> Vector<f32, N> {
        if comptime!(self.of.relu) {
            let y = self.chain::<N>(centered, at);
            select_many(y.less_equal(Vector::new(0.0)), Vector::new(0.0), grad)
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

/// The values of a factor for one vector.
#[cube]
pub(super) fn factor<N: Size>(
    factor: &Array<f32>,
    point: Point,
    sizes: Point,
    #[comptime] varies: u32,
) -> Vector<f32, N> {
    let first = index(point, sizes, varies);
    if comptime!(varies & 8 != 0) {
        let mut values = Vector::<f32, N>::zeroed();
        #[unroll]
        for i in 0..N::value() {
            values[i] = factor[first + i];
        }
        values
    } else {
        Vector::new(factor[first])
    }
}

#[cube]
pub(super) fn plus<N: Size>(
    x: Vector<f32, N>,
    summand: &ComptimeOption<Array<f32>>,
    point: Point,
    sizes: Point,
    #[comptime] varies: u32,
) -> Vector<f32, N> {
    #[comptime]
    match summand {
        ComptimeOption::Some(summand) => x + factor::<N>(summand, point, sizes, varies),
        ComptimeOption::None => x,
    }
}
