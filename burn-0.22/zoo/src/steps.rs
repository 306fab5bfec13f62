//! What steps a model.

use burn::{
    module::Module,
    optim::{GradientsParams, LearningRate, ModuleOptimizer},
};

/// An optimizer: Burn's, or one with the same method.
pub trait Steps {
    /// Makes a step.
    fn step<M: Module>(&mut self, lr: LearningRate, module: M, gradients: GradientsParams) -> M;
}

impl Steps for ModuleOptimizer {
    fn step<M: Module>(&mut self, lr: LearningRate, module: M, gradients: GradientsParams) -> M {
        Self::step(self, lr, module, gradients)
    }
}
