//! Sums the gradients of several devices.

use std::marker::PhantomData;

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::{GradientsParams, MultiGradientsParams},
    tensor::{Tensor, backend::AutodiffBackend},
};

/// Sums the gradients of all devices, each on the device on which Burn would step its parameter.
pub(super) fn merged<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: MultiGradientsParams,
    module: &M,
) -> GradientsParams {
    let mut merge = Merge::<B> {
        from: grads,
        to: GradientsParams::new(),
        backend: PhantomData,
    };
    module.visit(&mut merge);
    merge.to
}

struct Merge<B> {
    from: MultiGradientsParams,
    to: GradientsParams,
    backend: PhantomData<B>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Merge<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some((grad, _)) = self.from.remove::<B::InnerBackend, D>(param.id) {
            self.to.register(param.id, grad);
        }
    }
}
