//! Sums the gradients of several devices.

use std::marker::PhantomData;

use burn::{
    module::{AutodiffModule, ModuleVisitor, Param},
    optim::{GradientsParams, MultiGradientsParams},
    tensor::{
        Tensor,
        backend::{AutodiffBackend, DeviceId, DeviceOps},
    },
};

/// Sums the gradients of all devices, each on the device on which Burn would step its parameter.
pub(super) fn merge<B: AutodiffBackend, M: AutodiffModule<B>>(
    grads: MultiGradientsParams,
    module: &M,
) -> MultiGradientsParams {
    let mut merge = Merge::<B> {
        from: grads,
        to: Vec::new(),
        _backend: PhantomData,
    };
    module.visit(&mut merge);
    MultiGradientsParams { grads: merge.to }
}

struct Merge<B> {
    from: MultiGradientsParams,
    to: Vec<(GradientsParams, DeviceId)>,
    _backend: PhantomData<B>,
}

impl<B: AutodiffBackend> ModuleVisitor<B> for Merge<B> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let Some((grad, device)) = self.from.remove::<B::InnerBackend, D>(param.id) else {
            return;
        };
        let device = device.id();
        let at = match self.to.iter().position(|(_, id)| *id == device) {
            Some(at) => at,
            None => {
                self.to.push((GradientsParams::new(), device));
                self.to.len() - 1
            }
        };
        self.to[at].0.register(param.id, grad);
    }
}
