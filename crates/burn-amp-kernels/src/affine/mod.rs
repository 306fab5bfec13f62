//! Chains of sums and products of a tensor and small factors, in mixed precision.
//!
//! A batch, group, instance or RMS norm is `(x + before) / scale · rescale + after` with factors that are small beside `x`,
//! and often an activation function follows. [`forward`] computes all of it in F32 registers: it reads `x` as it is stored
//! and writes the result in the dtype that the next op reads, F32 for another one that needs F32.
//!
//! | op | computes | shape and dtype |
//! |---|---|---|
//! | [`forward`] | the chain, with an optional tensor added before its end | of `x`; any dtype |
//! | [`backward`] | its gradient with respect to `x`, plus [what else](Rest) reads `x` | of `x`; any dtype |
//! | [`sums`] | the sums that the gradients of the factors are made of | of the factors; F32 |
//! | [`moment`] | the sum of `x + before` or of its square, or the mean | what is kept; F32 |
//! | [`spread`](spread()) | the sum of `x`, and that of the squares of what it is off the mean, of which [`moment`] makes both | the same |
//!
//! `x` is F16, BF16 or F32. The factors are F32 and have the rank of [`Affine::grid`], the shape in which `x` is read; in
//! each dimension they have the grid's size or 1. The kernels read `x` in its order in memory, such as channels last.
//! Sums of many elements are added in slices, and the slices in a fixed order: the same bits every time.
//!
//! On Burn's `Autodiff` the chain is one node, and so is a sum. They keep `x` as it is stored, and the factors. Their
//! contributions to the gradient of `x` wait in the node that [`joined`] makes, which computes all of them in one pass:
//! that of a batch norm reads `x` and the gradient of the result, and writes the gradient of `x` as `x` is stored.

#[cfg(feature = "cubecl")]
mod device;
mod end;
mod joint;
#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod layout;
mod node;
mod op;
mod rectified;
mod reference;
mod spread;
#[cfg(feature = "cubecl")]
mod spread_kernel;
mod sum_node;
mod sums;
#[cfg(feature = "cubecl")]
mod sums_kernel;
#[cfg(feature = "cubecl")]
mod sums_launch;
mod term;

pub use end::{Bounds, End, Slope};
pub(crate) use joint::Joint;
pub use joint::{joined, pass_on};
pub use op::{backward, forward, in_order_of};
pub use rectified::rectified;
pub use spread::{Spread, spread};
pub use sum_node::{MomentOf, moment};
#[cfg(feature = "cubecl")]
pub(crate) use sums::SumsOfValues;
pub use sums::{Sums, sums};
#[cfg(feature = "cubecl")]
pub(crate) use sums_launch::sums_by_channel;
pub use term::has_layout;

use crate::prelude::*;

/// A factor is small beside a tensor that has this many times its elements.
pub const SMALL: usize = 16;

/// The chain `(x + before) · scale · rescale + after`, or `(x + before) / scale · rescale + after`, and a function of it. A ReLU may also be
/// that of its sum with a tensor that is as large as `x`.
/// An absent factor changes nothing. A factor is a tensor of type `T`.
#[derive(Clone, Debug)]
pub struct Affine<T> {
    /// The shape in which `x` is read. It has as many elements as `x`.
    pub grid: Shape,
    /// What is added to `x`.
    pub before: Option<T>,
    /// What the sum is multiplied by, or divided by.
    pub scale: Option<T>,
    /// Whether `scale` divides. A product with its reciprocal would be another number: 0.99999994 for 41 / 41.
    pub divides: bool,
    /// What the product is multiplied by, a factor that varies along other dimensions than `scale`.
    pub rescale: Option<T>,
    /// What is added last.
    pub after: Option<T>,
    /// The function of the result.
    pub end: End,
}

/// What is added to a chain's gradient with respect to `x` in the same pass: the gradients of other readers of `x`.
#[derive(Clone, Debug)]
pub struct Rest<T> {
    /// What was added to `x` where it was squared.
    pub before: Option<T>,
    /// The factor of `x + before`: twice the gradient of the sum of the squares. Without it, `before` is not read.
    pub of_squares: Option<T>,
    /// The gradient of a sum of the values.
    pub of_sum: Option<T>,
    /// A tensor of the shape of `x`.
    pub plus: Option<T>,
}

/// A group of factors that vary along the same dimensions, or all factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// `before` and `scale`; `after` too, if there is no `rescale`.
    First,
    /// `rescale` and `after`.
    Second,
    /// All factors, of which the sums of both groups can be made.
    All,
}

impl<T> Rest<T> {
    /// A tensor of the shape of `x`, or nothing.
    pub fn plus(plus: Option<T>) -> Self {
        Self {
            before: None,
            of_squares: None,
            of_sum: None,
            plus,
        }
    }
}

impl<T> Affine<T> {
    /// The chain without factors, which leaves `x` as it is.
    pub fn identity(grid: Shape) -> Self {
        Self {
            grid,
            before: None,
            scale: None,
            divides: false,
            rescale: None,
            after: None,
            end: End::Identity,
        }
    }

    /// The factors: before, scale, rescale, after.
    pub fn factors(&self) -> [Option<&T>; 4] {
        let Self {
            before,
            scale,
            rescale,
            after,
            ..
        } = self;
        [before, scale, rescale, after].map(Option::as_ref)
    }

    /// The same chain with other factors, in the order of [`factors`](Self::factors).
    pub fn with_factors<U>(&self, factors: [Option<U>; 4]) -> Affine<U> {
        let [before, scale, rescale, after] = factors;
        Affine {
            grid: self.grid.clone(),
            before,
            scale,
            divides: self.divides,
            rescale,
            after,
            end: self.end,
        }
    }

    /// The same chain with what `with` makes of the factors.
    fn map<U>(&self, with: impl FnMut(&T) -> U) -> Affine<U> {
        let mut with = with;
        self.with_factors(self.factors().map(|factor| factor.map(&mut with)))
    }

    /// The shape of a group's factors, broadcast to each other; `None` if the group is empty.
    pub fn kept(&self, group: Group) -> Option<Shape>
    where
        T: TensorMetadata,
    {
        let after_is_first = self.rescale.is_none();
        let [before, scale, rescale, after] = self.factors();
        let factors = match group {
            Group::First => [before, scale, after.filter(|_| after_is_first), None],
            Group::Second => [rescale, after.filter(|_| !after_is_first), None, None],
            Group::All => [before, scale, rescale, after],
        };
        let shapes = factors.into_iter().flatten().map(TensorMetadata::shape);
        shapes.reduce(|kept, shape| broadcast(&kept, &shape))
    }
}

/// The shape of two tensors of equal rank, broadcast to each other.
pub fn broadcast(a: &Shape, b: &Shape) -> Shape {
    let sizes = a.as_slice().iter().zip(b.as_slice());
    let sizes = sizes.map(|(a, b)| if *a == 1 { *b } else { *a });
    Vec::from_iter(sizes).into()
}
