//! Gradients whose factors have not been applied yet.
//!
//! A gradient leaves the backward pass scaled, and may have to be clipped by a factor that is known when all gradients
//! are. The step of an optimizer over all parameters applies both on its way, which costs nothing. Any other reader gets
//! the gradient with its factors applied.

use std::{fmt, sync::Arc};

use burn_amp_core::Precision;
use burn_amp_kernels::names::device_of;
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::{Backend, Shape, TensorMetadata, tensor::FloatTensor};

use super::{AmpTensor, Facts, Parts, Reader, Recipe, Role};
use crate::{
    graph::{NoGraph, Recorded},
    loss_scale::{DeferredPass, Passes},
    precision,
};

/// The factors of a gradient, in the order in which they are applied, in F32 (F64 for F64).
#[derive(Clone)]
pub struct Factors<B: AmpBackend> {
    /// The reciprocal of a loss scale that the host knows, or 1.
    pub unscale: f32,
    /// The backward pass by whose scale the gradient is divided; if it overflowed, the gradient is zeros.
    pub pass: Option<Arc<DeferredPass<B>>>,
    /// The factor of a clipping: one F32 element, which the gradients of a step share.
    pub clip: Option<Arc<FloatTensor<B>>>,
}

impl<B: AmpBackend> Factors<B> {
    /// Without factors.
    pub const fn none() -> Self {
        Self {
            unscale: 1.0,
            pass: None,
            clip: None,
        }
    }

    /// Returns a gradient with the factors applied, which widens a gradient in low precision.
    fn apply(&self, gradient: FloatTensor<B>) -> FloatTensor<B> {
        let Self {
            unscale,
            pass,
            clip,
        } = self;
        let mut gradient = gradient;
        let device = device_of::<B>(&gradient);
        if *unscale != 1.0 {
            gradient = times::<B>(gradient, *unscale);
        }
        if let Some(pass) = pass {
            let here = |state: &FloatTensor<B>| B::float_to_device(state.clone(), &device);
            let (before, after) = (here(&pass.before), here(&pass.after));
            gradient = kernels::loss_scale::unscale_unless_overflowed::<B>(gradient, before, after);
        }
        if let Some(clip) = clip {
            let wide = precision::of(&gradient).join(Precision::F32);
            let clip = B::float_to_device(clip.as_ref().clone(), &device);
            let clip = B::float_reshape(clip, Shape::from(vec![1; gradient.rank()]));
            let clip = precision::cast::<B>(clip, wide);
            gradient = B::float_mul(precision::cast::<B>(gradient, wide), clip);
        }
        gradient
    }
}

impl<B: AmpBackend> fmt::Debug for Factors<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factors")
            .field("unscale", &self.unscale)
            .finish_non_exhaustive()
    }
}

impl<B: AmpBackend> From<Factors<B>> for Recipe<B, NoGraph> {
    fn from(factors: Factors<B>) -> Self {
        Self::Scaled(factors, Factors::apply)
    }
}

impl<B: AmpBackend> AmpTensor<B> {
    /// A tensor that takes no memory of its own, where neither values nor shape matter.
    pub fn placeholder(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            facts: Facts::plain(self.context, self.logical, false),
        }
    }

    /// The gradient with the factor of an earlier clipping applied, if it has one.
    pub fn unclipped(self) -> Self {
        match self.recipe() {
            Some(Recipe::Scaled(factors, _)) if factors.clip.is_some() => self.settled(),
            _ => self,
        }
    }

    /// The gradient with a factor of a clipping besides its own.
    pub fn clipped_by(self, clip: Arc<FloatTensor<B>>) -> Self {
        let gradient = self.unclipped();
        let passes = gradient.role.gradient().cloned();
        let (values, factors) = gradient.clone().into_unscaled();
        let role = Role::Gradient(passes.unwrap_or(Passes::none()));
        let gradient = Self::of(Parts {
            values,
            logical: gradient.logical,
            context: gradient.context,
            role,
            recorded: Recorded::nothing(),
        });
        let clip = Some(clip);
        gradient.with_recipe(Factors { clip, ..factors }.into())
    }

    /// The values of a gradient, and the factors that they have not been multiplied with.
    ///
    /// Anything else is read in F32, as the gradient that a program has made.
    pub fn into_unscaled(self) -> (FloatTensor<B>, Factors<B>) {
        match (self.recipe(), &self.role) {
            (Some(Recipe::Scaled(factors, _)), _) => {
                let factors = factors.clone();
                (self.inner, factors)
            }
            (None, Role::Gradient(_)) => (self.inner, Factors::none()),
            _ => {
                let wide = self.stored().join(Precision::F32);
                (self.read(wide, Reader::Cut), Factors::none())
            }
        }
    }
}

/// Returns `tensor × factor` in F32, because F16 cannot represent 65536, and its reciprocal only as a subnormal. F64
/// stays F64.
pub fn times<B: Backend>(tensor: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    let wide = precision::of(&tensor).join(Precision::F32);
    let tensor = precision::cast::<B>(tensor, wide);
    if factor == 1.0 {
        tensor
    } else {
        B::float_mul_scalar(tensor, factor.into())
    }
}
