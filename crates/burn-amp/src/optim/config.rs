//! What Burn's optimizer configurations have in common, and the wrappers around them.

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
/// All of Burn's configurations are one. [`MasterWeights`](super::MasterWeights) and
/// [`SkipOnDevice`](super::SkipOnDevice) over a configuration are one too, so they nest in any order.
pub trait OptimizerConfig<B: Backend> {
    /// The optimizer.
    type Optimizer: SimpleOptimizer<B>;

    /// Makes the optimizer, without the gradient clipping of the configuration.
    fn simple(&self) -> Self::Optimizer;

    /// Makes the optimizer as Burn adapts it to a module, with the gradient clipping of the configuration.
    fn adaptor<A, M>(&self) -> OptimizerAdaptor<Self::Optimizer, M, A>
    where
        A: AutodiffBackend<InnerBackend = B>,
        M: AutodiffModule<A>;

    /// Where the F32 masters of parameters stored in BF16 are: nowhere, unless a
    /// [`MasterWeights`](super::MasterWeights) keeps them.
    fn masters(&self) -> Masters {
        Masters::None
    }
}

/// The same adaptor, with its gradient clipping, around another optimizer.
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
