//! Weights that PyTorch saved are read on Burn 0.21 only.

/// The reason why weights cannot be loaded. There is none, since none are.
#[derive(Clone, Copy, Debug)]
pub enum WeightsError {}
