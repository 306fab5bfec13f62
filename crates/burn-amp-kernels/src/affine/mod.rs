//! Chains of sums and products of a tensor and small factors, in mixed precision.
//!
//! A batch, group, instance or RMS norm is `(x + before) / scale · rescale + after` with factors that are small beside `x`,
//! and often a ReLU follows. [`forward`] computes all of it in F32 registers: it reads `x` as it is stored
//! and writes the result in the dtype that the next op reads, F32 for another one that needs F32.
//!
//! | op | computes | shape and dtype |
//! |---|---|---|
//! | [`forward`] | the chain, with an optional tensor added before the ReLU | of `x`; any dtype |
//! | [`backward`] | its gradient with respect to `x`, plus [what else](Rest) reads `x` | of `x`; any dtype |
//! | [`sums`] | the sums that the gradients of the factors are made of | of the factors; F32 |
//! | [`moments`] | sums of `x + before` and of its square, or their means | what is kept; F32 |
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
#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod layout;
mod node;
mod op;
mod parts;
mod reference;
mod sum_node;
mod sums;
#[cfg(feature = "cubecl")]
mod sums_kernel;
#[cfg(feature = "cubecl")]
mod sums_launch;
mod term;

use burn_backend::{Backend, Shape, TensorMetadata, tensor::FloatTensor};

pub use node::forward;
pub use op::{backward, in_order_of};
pub use reference::{reference, reference_backward, reference_moments, reference_sums};
pub use sum_node::moment;
#[cfg(feature = "cubecl")]
pub(crate) use sums::SumsOfValues;
pub use sums::{moments, sums};
pub(crate) use term::AffineJoint;
pub use term::{joined, pass_on};

/// A factor is small beside a tensor that has this many times its elements.
pub const SMALL: usize = 16;

/// The chain `(x + before) · scale · rescale + after`, or `(x + before) / scale · rescale + after`, and a ReLU of it, or of
/// its sum with a tensor that is as large as `x`.
/// An absent factor changes nothing.
#[derive(Clone, Debug)]
pub struct Affine<B: Backend> {
    /// The shape in which `x` is read. It has as many elements as `x`.
    pub grid: Shape,
    /// What is added to `x`.
    pub before: Option<FloatTensor<B>>,
    /// What the sum is multiplied by, or divided by.
    pub scale: Option<FloatTensor<B>>,
    /// Whether `scale` divides. A product with its reciprocal would be another number: 0.99999994 for 41 / 41.
    pub divides: bool,
    /// What the product is multiplied by, a factor that varies along other dimensions than `scale`.
    pub rescale: Option<FloatTensor<B>>,
    /// What is added last.
    pub after: Option<FloatTensor<B>>,
    /// Whether negative results become 0.
    pub relu: bool,
}

/// What is added to a chain's gradient with respect to `x` in the same pass: the gradients of other readers of `x`.
#[derive(Clone, Debug)]
pub struct Rest<B: Backend> {
    /// What was added to `x` where it was squared.
    pub before: Option<FloatTensor<B>>,
    /// The factor of `x + before`: twice the gradient of the sum of the squares. Without it, `before` is not read.
    pub of_squares: Option<FloatTensor<B>>,
    /// The gradient of a sum of the values.
    pub of_sum: Option<FloatTensor<B>>,
    /// A tensor of the shape of `x`.
    pub plus: Option<FloatTensor<B>>,
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

/// The sums over an [`Affine`]'s gradient `h`, the gradient of the result where the ReLU let it pass. They have the shape
/// of the group's factors, broadcast to each other.
#[derive(Clone, Debug)]
pub struct Sums<T> {
    /// The sum of `h · rescale` for the first group, of `h` for the second and for all.
    pub of_gradient: T,
    /// The sum of `h · rescale · (x + before)` for the first group, of `h · (x + before) · scale`, or divided by it, for the
    /// second, of `h · (x + before)` for all.
    pub of_product: T,
}

/// The sums of `x + before` and of its square over the dimensions in which `kept` is 1, or their means.
#[derive(Clone, Debug)]
pub struct SumAndSquares<T> {
    /// The sum of the values, or their mean.
    pub sum: T,
    /// The sum of their squares, or the mean.
    pub squares: T,
}

/// Which of the [`SumAndSquares`] is computed, and of what.
#[derive(Clone, Debug)]
pub struct MomentOf<B: Backend> {
    /// The shape in which `x` is read.
    pub grid: Shape,
    /// What is added to `x`: F32, of the grid's rank, 1 in each dimension that is summed over.
    pub before: Option<FloatTensor<B>>,
    /// The shape of the result: the grid's size in a dimension that is kept, 1 in one that is summed over.
    pub kept: Shape,
    /// Whether the values are squared.
    pub squared: bool,
    /// Whether it is a mean, not a sum.
    pub mean: bool,
}

impl<B: Backend> Rest<B> {
    /// A tensor of the shape of `x`, or nothing.
    pub fn plus(plus: Option<FloatTensor<B>>) -> Self {
        Self {
            before: None,
            of_squares: None,
            of_sum: None,
            plus,
        }
    }

    /// The tensors: before, of squares, of the sum, plus.
    fn into_tensors(self) -> [Option<FloatTensor<B>>; 4] {
        let Self {
            before,
            of_squares,
            of_sum,
            plus,
        } = self;
        [before, of_squares, of_sum, plus]
    }
}

impl<B: Backend> Affine<B> {
    /// The chain without factors, which leaves `x` as it is.
    pub fn identity(grid: Shape) -> Self {
        Self {
            grid,
            before: None,
            scale: None,
            divides: false,
            rescale: None,
            after: None,
            relu: false,
        }
    }

    /// The factors: before, scale, rescale, after.
    pub fn factors(&self) -> [Option<&FloatTensor<B>>; 4] {
        [
            self.before.as_ref(),
            self.scale.as_ref(),
            self.rescale.as_ref(),
            self.after.as_ref(),
        ]
    }

    /// `tensor · scale`, or `tensor / scale`; the tensor if there is no `scale`.
    fn scaled(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        match &self.scale {
            Some(scale) if self.divides => B::float_div(tensor, scale.clone()),
            Some(scale) => B::float_mul(tensor, scale.clone()),
            None => tensor,
        }
    }

    /// `tensor · rescale`; the tensor if there is no `rescale`.
    fn rescaled(&self, tensor: FloatTensor<B>) -> FloatTensor<B> {
        match &self.rescale {
            Some(rescale) => B::float_mul(tensor, rescale.clone()),
            None => tensor,
        }
    }

    /// The same chain with other factors, in the order of [`factors`](Self::factors).
    pub fn with_factors<C: Backend>(&self, factors: [Option<FloatTensor<C>>; 4]) -> Affine<C> {
        let [before, scale, rescale, after] = factors;
        Affine {
            grid: self.grid.clone(),
            before,
            scale,
            divides: self.divides,
            rescale,
            after,
            relu: self.relu,
        }
    }

    /// The shape of a group's factors, broadcast to each other; `None` if the group is empty.
    pub fn kept(&self, group: Group) -> Option<Shape> {
        let after_is_first = self.rescale.is_none();
        let [before, scale, rescale, after] = self.factors();
        let factors = match group {
            Group::First => [before, scale, after.filter(|_| after_is_first), None],
            Group::Second => [rescale, after.filter(|_| !after_is_first), None, None],
            Group::All => [before, scale, rescale, after],
        };
        factors.into_iter().flatten().fold(None, |kept, factor| {
            let shape = factor.shape();
            Some(match kept {
                Some(kept) => broadcast(&kept, &shape),
                None => shape,
            })
        })
    }
}

/// The shape of two tensors of equal rank, broadcast to each other.
pub fn broadcast(a: &Shape, b: &Shape) -> Shape {
    let sizes = a.as_slice().iter().zip(b.as_slice());
    sizes
        .map(|(a, b)| if *a == 1 { *b } else { *a })
        .collect::<Vec<_>>()
        .into()
}
