//! The trait that Burn's optimizer configurations and the wrappers around them have in common.

use burn::{
    module::AutodiffModule,
    optim::{
        AdaGrad, AdaGradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Adan, AdanConfig, Muon,
        MuonConfig, RmsProp, RmsPropConfig, Sgd, SgdConfig, SimpleOptimizer,
        adaptor::OptimizerAdaptor,
    },
    tensor::backend::{AutodiffBackend, Backend},
};

use super::Masters;

/// A configuration that makes a [`SimpleOptimizer`] for tensors of the backend `B`.
///
/// All of Burn's optimizer configurations implement it. So do [`MasterWeights`](super::MasterWeights) and
/// [`SkipOnDevice`](super::SkipOnDevice) over a configuration, so they nest in any order.
pub trait OptimizerConfig<B: Backend> {
    /// The optimizer.
    type Optimizer: SimpleOptimizer<B>;

    /// Makes the optimizer, without the gradient clipping of the configuration.
    fn simple(&self) -> Self::Optimizer;

    /// Makes the optimizer for a module, in Burn's adaptor, with the gradient clipping of the configuration.
    fn adaptor<A, M>(&self) -> OptimizerAdaptor<Self::Optimizer, M, A>
    where
        A: AutodiffBackend<InnerBackend = B>,
        M: AutodiffModule<A>;

    /// Returns where the F32 masters of parameters in half precision are kept: nowhere, unless a
    /// [`MasterWeights`](super::MasterWeights) keeps them.
    fn masters(&self) -> Masters {
        Masters::None
    }
}

/// Replaces the optimizer in an adaptor, and keeps the adaptor's gradient clipping.
pub(super) fn replace_optimizer<O, W, M, A>(
    adaptor: OptimizerAdaptor<O, M, A>,
    wrap: impl FnOnce(O) -> W,
) -> OptimizerAdaptor<W, M, A>
where
    A: AutodiffBackend,
    M: AutodiffModule<A>,
    O: SimpleOptimizer<A::InnerBackend>,
    W: SimpleOptimizer<A::InnerBackend>,
{
    let wrapped = OptimizerAdaptor::from(wrap(adaptor.optim().clone()));
    match adaptor.grad_clipping() {
        Some(clipping) => wrapped.with_grad_clipping(clipping.clone()),
        None => wrapped,
    }
}

/// Implements [`OptimizerConfig`]. A macro, because Burn's configurations have the same methods but share no trait.
macro_rules! optimizer_config {
    ($($Config:ty => $Optimizer:ident $(<$B:ident>)?;)+) => {
        $(impl<B: Backend> OptimizerConfig<B> for $Config {
            type Optimizer = $Optimizer $(<$B>)?;

            fn simple(&self) -> Self::Optimizer {
                self.build()
            }

            fn adaptor<A, M>(&self) -> OptimizerAdaptor<Self::Optimizer, M, A>
            where
                A: AutodiffBackend<InnerBackend = B>,
                M: AutodiffModule<A>,
            {
                self.init()
            }
        })+
    };
}

optimizer_config! {
    SgdConfig => Sgd<B>;
    AdamConfig => Adam;
    AdamWConfig => AdamW;
    AdanConfig => Adan;
    AdaGradConfig => AdaGrad;
    RmsPropConfig => RmsProp;
    MuonConfig => Muon<B>;
}
