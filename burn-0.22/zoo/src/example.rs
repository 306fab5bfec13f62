//! A batch that PyTorch saved is read on Burn 0.21 only.

use burn::prelude::*;

use crate::weights::WeightsError;

/// The tensors of a file. There is none.
#[derive(Clone, Copy, Debug)]
pub enum Example {}

impl Example {
    /// A tensor of floats.
    ///
    /// # Errors
    ///
    /// Never returns one.
    pub fn floats<const D: usize>(&self, _: &str, _: &Device) -> Result<Tensor<D>, WeightsError> {
        match *self {}
    }

    /// A tensor of integers.
    ///
    /// # Errors
    ///
    /// Never returns one.
    pub fn ints<const D: usize>(
        &self,
        _: &str,
        _: &Device,
    ) -> Result<Tensor<D, Int>, WeightsError> {
        match *self {}
    }
}
