//! Types for losses and gradients that carry a loss scale, and for gradients that do not.

use burn::{
    module::AutodiffModule,
    optim::{GradientsAccumulator, GradientsParams, LearningRate, Optimizer},
    tensor::{
        Tensor, TensorPrimitive,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_core::Outcome;

use super::ScalerError;
use burn_amp_decorator::internal::times as times_in_f32;

/// A loss or gradients that carry a loss scale.
#[derive(Clone, Debug)]
pub struct Scaled<T> {
    pub(super) value: T,
    pub(super) scale: f32,
}

/// Unscaled gradients; after an overflow there are none.
#[derive(Debug)]
#[must_use = "gradients are there to step with"]
pub struct Unscaled {
    pub(super) gradients: Option<GradientsParams>,
}

impl<T> Scaled<T> {
    /// Returns the loss scale that the value carries.
    pub fn factor(&self) -> f32 {
        self.scale
    }

    pub(super) fn must_carry(&self, scale: f32) -> Result<(), ScalerError> {
        if self.scale == scale {
            Ok(())
        } else {
            Err(ScalerError::OtherScale {
                found: self.scale,
                expected: scale,
            })
        }
    }
}

impl<B: Backend, const D: usize> Scaled<Tensor<B, D>> {
    pub(super) fn new(tensor: Tensor<B, D>, scale: f32) -> Self {
        Self {
            value: times(tensor, scale),
            scale,
        }
    }

    /// Removes the scale, in F32 and without a check, for gradients that become part of a loss.
    pub fn unscale(self) -> Tensor<B, D> {
        times(self.value, self.scale.recip())
    }
}

impl<B: AutodiffBackend, const D: usize> Scaled<Tensor<B, D>> {
    /// Runs the backward pass from here.
    pub fn backward(self) -> Scaled<B::Gradients> {
        Scaled {
            value: self.value.backward(),
            scale: self.scale,
        }
    }
}

impl<G> Scaled<G> {
    /// Takes out the gradients of a model's parameters.
    pub fn of<B: AutodiffBackend<Gradients = G>, M: AutodiffModule<B>>(
        &mut self,
        model: &M,
    ) -> Scaled<GradientsParams> {
        Scaled {
            value: GradientsParams::from_module::<B, M>(&mut self.value, model),
            scale: self.scale,
        }
    }

    /// Returns the gradient of one tensor.
    pub fn grad<B: AutodiffBackend<Gradients = G>, const D: usize>(
        &self,
        tensor: &Tensor<B, D>,
    ) -> Option<Scaled<Tensor<B::InnerBackend, D>>> {
        Some(Scaled {
            value: tensor.grad(&self.value)?,
            scale: self.scale,
        })
    }
}

impl Scaled<GradientsParams> {
    /// Adds the gradients of another micro-batch.
    ///
    /// # Errors
    ///
    /// Returns an error if they carry a different scale.
    pub fn accumulate<B: AutodiffBackend, M: AutodiffModule<B>>(
        &mut self,
        other: Self,
        model: &M,
    ) -> Result<(), ScalerError> {
        other.must_carry(self.scale)?;
        let mut sum = GradientsAccumulator::<M>::new();
        sum.accumulate(model, std::mem::take(&mut self.value));
        sum.accumulate(model, other.value);
        self.value = sum.grads();
        Ok(())
    }
}

impl Unscaled {
    /// Returns whether all gradients were finite.
    pub fn outcome(&self) -> Outcome {
        match self.gradients {
            Some(_) => Outcome::Finite,
            None => Outcome::Overflowed,
        }
    }

    /// Returns the gradients, to clip or to inspect them; `None` after an overflow. They are not checked again.
    pub fn gradients_mut(&mut self) -> Option<&mut GradientsParams> {
        self.gradients.as_mut()
    }

    /// Steps the optimizer, or skips the step after an overflow: then neither the model nor the optimizer changes.
    pub fn step<B, M, O>(self, optimizer: &mut O, lr: LearningRate, model: M) -> M
    where
        B: AutodiffBackend,
        M: AutodiffModule<B>,
        O: Optimizer<M, B>,
    {
        match self.gradients {
            Some(gradients) => optimizer.step(lr, model, gradients),
            None => model,
        }
    }
}

/// Returns `tensor × factor` in F32, see [`times_in_f32`].
fn times<B: Backend, const D: usize>(tensor: Tensor<B, D>, factor: f32) -> Tensor<B, D> {
    let product = times_in_f32::<B>(tensor.into_primitive().tensor(), factor);
    Tensor::from_primitive(TensorPrimitive::Float(product))
}
