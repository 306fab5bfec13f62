//! The gradients of a backward pass: stored scaled, unscaled when they are taken out.

use std::sync::Arc;

use burn_amp_core::{Outcome, Precision};
use burn_amp_kernels::AmpBackend;
use burn_amp_kernels::names::device_of;
use burn_backend::{TensorMetadata, tensor::FloatTensor};

use super::scaled::times_on_device;
use crate::{
    graph::{Recorded, Records},
    loss_scale::{DeferredPass, Passes},
    policy::Context,
    precision,
    tensor::{AmpTensor, Factors, Parts, Role, times},
};

/// The gradients of a backward pass, and its outcome. They are stored scaled and unscaled when they are taken out.
pub struct Gradients<B: AmpBackend> {
    pub(super) inner: burn_autodiff::grads::Gradients,
    pub(super) pass: Pass<B>,
}

/// The scale and the outcome of a backward pass.
pub(super) enum Pass<B: AmpBackend> {
    /// The host knows them.
    Checked { scale: f32, outcome: Outcome },
    /// They are on the device.
    Deferred(Arc<DeferredPass<B>>),
}

impl<B: AmpBackend> Gradients<B> {
    /// Returns the loss scale of the pass. With `loss_scale.sync = false` this waits for the device.
    pub fn scale(&self) -> f32 {
        match &self.pass {
            Pass::Checked { scale, .. } => *scale,
            Pass::Deferred(pass) => pass.scale_on_host(),
        }
    }

    /// Returns whether all gradients were finite. With `loss_scale.sync = false` this waits for the device.
    ///
    /// After an overflow `tensor.grad(&grads)` returns zeros, and `tensor.grad_remove(&mut grads)`, with which
    /// `GradientsParams` takes the gradients of an optimizer's step, returns `None`; with `loss_scale.sync = false` it
    /// returns zeros too. `backward_until_finite` repeats such a pass.
    #[doc(alias = "found_inf")]
    pub fn outcome(&self) -> Outcome {
        match &self.pass {
            Pass::Checked { outcome, .. } => *outcome,
            Pass::Deferred(pass) => pass.wait(),
        }
    }
}

impl<B: AmpBackend> Pass<B> {
    /// A pass whose loss was not scaled, and whose gradients were not checked.
    pub(super) const UNSCALED: Self = Self::Checked {
        scale: 1.0,
        outcome: Outcome::Finite,
    };

    /// Returns the gradient of a tensor, unscaled. After an overflow it is withheld, and the tensor records the moment.
    pub(super) fn unscale_for<G: Records<B>>(
        &self,
        tensor: &AmpTensor<B, G>,
        gradient: FloatTensor<B>,
    ) -> Option<AmpTensor<B>> {
        let gradient = self.unscale(gradient, tensor.stored(), tensor.context);
        if let (None, Some(origin)) = (&gradient, tensor.role.origin()) {
            origin.withhold();
        }
        #[cfg(burn_0_22)]
        if let (Role::Leaf(leaf), Self::Deferred(pass)) = (&tensor.role, self) {
            leaf.give(&Passes::of(pass.clone()));
        }
        gradient
    }

    /// Returns the gradient of a parameter stored in dtype `leaf`, unscaled by its first reader; `None` after an overflow.
    ///
    /// Unscaling is exact, because the scale is a power of two; only subnormal results round. A gradient that was not
    /// scaled keeps its storage dtype until an op widens it.
    fn unscale(
        &self,
        gradient: FloatTensor<B>,
        leaf: Precision,
        context: &'static Context<B>,
    ) -> Option<AmpTensor<B>> {
        let (factors, passes) = match self {
            Self::Checked {
                outcome: Outcome::Overflowed,
                ..
            } => return None,
            Self::Checked { scale, .. } if *scale == 1.0 || is_unscaled::<B>(&gradient, leaf) => {
                (None, Passes::none())
            }
            Self::Checked { scale, .. } => {
                let factors = Factors {
                    unscale: scale.recip(),
                    ..Factors::none()
                };
                (Some(factors), Passes::none())
            }
            Self::Deferred(pass) => {
                let factors = Factors {
                    pass: Some(pass.clone()),
                    ..Factors::none()
                };
                (Some(factors), Passes::of(pass.clone()))
            }
        };
        let passes = passes.of_leaf(leaf, || gradient.shape());
        Some(Self::wrap(gradient, context, passes, factors))
    }

    fn wrap(
        gradient: FloatTensor<B>,
        context: &'static Context<B>,
        passes: Passes<B>,
        factors: Option<Factors<B>>,
    ) -> AmpTensor<B> {
        let stored = match factors {
            Some(_) => precision::of(&gradient).join(Precision::F32),
            None => precision::of(&gradient),
        };
        let gradient = AmpTensor::of(Parts {
            // Where the policy lowers nothing, the gradient of a half-precision leaf is in half precision, as in plain Burn.
            logical: if context.policy.compute().is_low() {
                stored.join(Precision::F32)
            } else {
                stored
            },
            values: gradient,
            context,
            role: Role::Gradient(passes),
            recorded: Recorded::nothing(),
        });
        match factors {
            Some(factors) => gradient.with_recipe(factors.into()),
            None => gradient,
        }
    }

    /// Returns zeros in place of a gradient that overflowed.
    pub(super) fn zeros(gradient: &FloatTensor<B>, context: &'static Context<B>) -> AmpTensor<B> {
        let dtype = precision::of(gradient).join(Precision::F32);
        let zeros = B::float_zeros(
            gradient.shape(),
            &device_of::<B>(gradient),
            precision::to_float(dtype),
        );
        Self::wrap(zeros, context, Passes::none(), None)
    }

    /// Scales a gradient as it is stored: the inverse of [`unscale`](Self::unscale).
    pub(super) fn scale(&self, gradient: FloatTensor<B>, leaf: Precision) -> FloatTensor<B> {
        match self {
            Self::Checked { scale, .. } if *scale == 1.0 || is_unscaled::<B>(&gradient, leaf) => {
                gradient
            }
            Self::Checked { scale, .. } => times::<B>(gradient, *scale),
            Self::Deferred(pass) => {
                let scale = pass.scale(gradient.rank());
                let scale = B::float_to_device(scale, &device_of::<B>(&gradient));
                times_on_device::<B>(gradient, scale)
            }
        }
    }
}

/// Whether the check has unscaled this gradient: it does so for parameters in half precision, and stores the result in
/// F32.
fn is_unscaled<B: AmpBackend>(gradient: &FloatTensor<B>, leaf: Precision) -> bool {
    leaf.is_low() && !precision::of(gradient).is_low()
}
