//! What Burn's optimizer configurations have in common.

use burn::{
    module::AutodiffModule,
    optim::{
        AdaGrad, AdaGradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Adan, AdanConfig, Muon,
        MuonConfig, RmsProp, RmsPropConfig, Sgd, SgdConfig, SimpleOptimizer,
        adaptor::OptimizerAdaptor,
    },
    tensor::backend::{AutodiffBackend, Backend},
};

/// A configuration that makes a [`SimpleOptimizer`]; implemented for all of Burn's.
pub trait OptimizerConfig {
    /// The optimizer.
    type Optimizer<B: Backend>: SimpleOptimizer<B>;

    /// The optimizer by itself.
    fn simple<B: Backend>(&self) -> Self::Optimizer<B>;

    /// The optimizer as Burn adapts it to a module, with the gradient clipping of the configuration.
    fn adaptor<B: AutodiffBackend, M: AutodiffModule<B>>(
        &self,
    ) -> OptimizerAdaptor<Self::Optimizer<B::InnerBackend>, M, B>;
}

/// Implements [`OptimizerConfig`]. A macro, because Burn's configurations have the same methods but share no trait.
macro_rules! optimizer_config {
    ($($Config:ty => $Optimizer:ident $(<$B:ident>)?;)+) => {
        $(impl OptimizerConfig for $Config {
            type Optimizer<B: Backend> = $Optimizer $(<$B>)?;

            fn simple<B: Backend>(&self) -> Self::Optimizer<B> {
                self.build()
            }

            fn adaptor<B: AutodiffBackend, M: AutodiffModule<B>>(
                &self,
            ) -> OptimizerAdaptor<Self::Optimizer<B::InnerBackend>, M, B> {
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
