//! Scores of attention: a product that is scaled and masked, which is not computed until someone reads it.
//!
//! Burn composes attention of a product of matrices, a division, a masked fill and a softmax, and each of them reads and
//! writes all scores. Division and fill cost nothing as part of the softmax, and nothing is rounded in between. So they
//! wait for their reader. Any other one gets what Burn's ops compute.

use burn_amp_core::scalar;
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    scalar::ScalarOp,
    softmax::{Mask, ScaleMask},
};
use burn_backend::{
    Scalar, Shape, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor},
};

use super::{AmpTensor, Recipe};
use crate::{graph::Graph, precision};

/// What is to be done with a low tensor.
pub(crate) struct Scores<B: AmpBackend> {
    scale: Option<Scale>,
    fill: Option<Fill<BoolTensor<B>>>,
}

#[derive(Clone, Copy)]
struct Scale {
    op: ScalarOp,
    scalar: Scalar,
}

#[derive(Clone)]
struct Fill<M> {
    mask: M,
    value: Scalar,
}

/// The product behind scores, and what a softmax does on its way.
pub(crate) type Unscored<B, G> = (
    FloatTensor<<G as Graph<B>>::Inner>,
    ScaleMask<BoolTensor<B>>,
);

/// A softmax gives practically no weight to what is so far below other scores.
const HIDDEN: f64 = -1e3;

impl<B: AmpBackend> Scores<B> {
    /// A tensor that is multiplied by a number or divided by it.
    pub(crate) fn scaled(op: ScalarOp, scalar: Scalar) -> Self {
        Self {
            scale: Some(Scale { op, scalar }),
            fill: None,
        }
    }

    /// A tensor of a shape in which a mask hides elements from a softmax; `None` if the mask has another purpose.
    pub(crate) fn masked(shape: &Shape, mask: BoolTensor<B>, value: Scalar) -> Option<Self> {
        let (scale, fill) = (None, None);
        Self { scale, fill }.and_masked(shape, mask, value)
    }

    /// The same tensor with a mask, which hides more elements if there is one already. `None` if the mask has another
    /// purpose, or if one hides elements by another value.
    pub(crate) fn and_masked(
        &self,
        shape: &Shape,
        mask: BoolTensor<B>,
        value: Scalar,
    ) -> Option<Self> {
        let mask_shape = mask.shape();
        let mut sizes = mask_shape.as_slice().iter().zip(shape.as_slice());
        let is_broadcast = mask_shape.num_dims() == shape.num_dims()
            && sizes.all(|(mask, size)| *mask == 1 || mask == size);
        if !is_broadcast || value.elem::<f64>() > HIDDEN {
            return None;
        }
        let mask = match &self.fill {
            Some(fill) if fill.value.elem::<f64>() == value.elem::<f64>() => {
                either::<B>(fill.mask.clone(), mask)
            }
            Some(_) => return None,
            None => mask,
        };
        Some(Self {
            scale: self.scale,
            fill: Some(Fill { mask, value }),
        })
    }

    /// Whether elements are to be hidden.
    pub(super) fn is_masked(&self) -> bool {
        self.fill.is_some()
    }

    /// What a softmax does on its way.
    fn before(&self) -> ScaleMask<BoolTensor<B>> {
        let scale = self.scale.map_or(1.0, |scale| {
            let scalar: f64 = scale.scalar.elem();
            match scale.op {
                ScalarOp::Div => 1.0 / scalar,
                _ => scalar,
            }
        });
        let mask = self.fill.as_ref().map(|fill| Mask {
            elements: fill.mask.clone(),
            value: fill.value.elem(),
        });
        ScaleMask {
            scale: scale as f32,
            mask,
        }
    }

    /// Computes the scores from the low tensor, op by op.
    pub(super) fn apply<G: Graph<B>>(&self, x: FloatTensor<G::Inner>) -> FloatTensor<G::Inner> {
        let x = match self.scale {
            Some(scale) => scale.apply::<G::Inner>(x),
            None => x,
        };
        match &self.fill {
            Some(Fill { mask, value }) => G::Inner::float_mask_fill(x, mask.clone(), *value),
            None => x,
        }
    }
}

impl<B: AmpBackend, G: Graph<B>> AmpTensor<B, G> {
    /// The scores in parts, if they have not been computed.
    pub(crate) fn unscored(&self) -> Option<Unscored<B, G>> {
        let forms = self.facts.forms::<G>().filter(|forms| !forms.has_low())?;
        match &forms.recipe {
            Recipe::Scores(scores) => Some((self.inner.clone(), scores.before())),
            _ => None,
        }
    }
}

impl Scale {
    /// Computes as Burn's op, or as [`ops::scalar`](crate::ops) does where that would round the scalar.
    fn apply<B: AmpBackend>(self, x: FloatTensor<B>) -> FloatTensor<B> {
        let Self { op, scalar } = self;
        if scalar::is_rounded(scalar.elem(), precision::of(&x)) {
            kernels::scalar::forward::<B>(x, op, scalar.elem())
        } else if op == ScalarOp::Div {
            B::float_div_scalar(x, scalar)
        } else {
            B::float_mul_scalar(x, scalar)
        }
    }
}

/// The mask that is true where one of two is.
fn either<B: AmpBackend>(a: BoolTensor<B>, b: BoolTensor<B>) -> BoolTensor<B> {
    let (a_shape, b_shape) = (a.shape(), b.shape());
    let sizes = a_shape.as_slice().iter().zip(b_shape.as_slice());
    let both: Vec<usize> = sizes.map(|(a, b)| *a.max(b)).collect();
    let [a, b] = [a, b].map(|mask| B::bool_expand(mask, both.clone().into()));
    B::bool_or(a, b)
}
