//! The trait that Burn's optimizer configurations and the wrappers around them have in common.

use burn::{
    grad_clipping::{GradientClipping, GradientClippingConfig},
    module::AutodiffModule,
    optim::{
        AdaGrad, AdaGradConfig, Adam, AdamConfig, AdamW, AdamWConfig, Adan, AdanConfig, Muon,
        MuonConfig, RmsProp, RmsPropConfig, Sgd, SgdConfig, SimpleOptimizer,
        adaptor::OptimizerAdaptor,
    },
    tensor::{
        ElementConversion,
        backend::{AutodiffBackend, Backend},
    },
};
use burn_amp_kernels::optimizer::Rule;
use serde::Deserialize;

use super::{
    Masters,
    list::states::{BurnState, adam, adam_w, sgd},
    rule::{self, fields},
};

/// A configuration that makes a [`SimpleOptimizer`] for tensors of the backend `B`.
///
/// All of Burn's optimizer configurations implement it, and [`MasterWeights`](super::MasterWeights) over one.
pub trait OptimizerConfig<B: Backend> {
    /// The optimizer.
    type Optimizer: SimpleOptimizer<B>;

    /// Makes the optimizer, without the gradient clipping of the configuration.
    fn simple(&self) -> Self::Optimizer;

    /// Returns the clipping of each parameter's gradient that the configuration asks for.
    fn clipping(&self) -> Option<GradientClipping> {
        None
    }

    /// Makes the optimizer for a module, in Burn's adaptor, with the gradient clipping of the configuration.
    fn adaptor<A, M>(&self) -> OptimizerAdaptor<Self::Optimizer, M, A>
    where
        A: AutodiffBackend<InnerBackend = B>,
        M: AutodiffModule<A>,
    {
        let adaptor = OptimizerAdaptor::from(self.simple());
        match self.clipping() {
            Some(clipping) => adaptor.with_grad_clipping(clipping),
            None => adaptor,
        }
    }

    /// Returns where the F32 masters of parameters in half precision are kept: nowhere, unless a
    /// [`MasterWeights`](super::MasterWeights) keeps them.
    fn masters(&self) -> Masters {
        Masters::None
    }

    /// Returns the bytes that the moments take per element of an F32 parameter with `elements` elements; `None` if they
    /// depend on neither argument. `keeps_more` says whether the parameter is one of a norm or an embedding.
    #[doc(hidden)]
    fn moment_bytes(&self, elements: usize, keeps_more: bool) -> Option<f64> {
        let _ = (elements, keeps_more);
        None
    }

    /// Returns the rule by which all parameters can step together; `None` if they step one after the other.
    #[doc(hidden)]
    fn rule(&self) -> Option<Rule> {
        None
    }

    /// Makes a state of the number of steps and the moments, for an optimizer with a [`rule`](Self::rule).
    #[doc(hidden)]
    fn state_of<const D: usize>(
        parts: BurnState<B, D>,
    ) -> Option<<Self::Optimizer as SimpleOptimizer<B>>::State<D>> {
        let _ = parts;
        None
    }

    /// The inverse of [`state_of`](Self::state_of).
    #[doc(hidden)]
    fn parts_of<const D: usize>(
        state: <Self::Optimizer as SimpleOptimizer<B>>::State<D>,
    ) -> Option<BurnState<B, D>> {
        let _ = state;
        None
    }
}

/// The clipping in a configuration. Muon has none.
#[derive(Deserialize)]
struct GradClipping {
    #[serde(default, alias = "gradient_clipping")]
    grad_clipping: Option<GradientClippingConfig>,
}

/// Implements [`OptimizerConfig`]. A macro, because Burn's configurations have the same methods but share no trait.
macro_rules! optimizer_config {
    ($($Config:ty => $Optimizer:ident $(<$B:ident>)? $(by $rule:expr, $states:ident)?;)+) => {
        $(impl<B: Backend> OptimizerConfig<B> for $Config {
            type Optimizer = $Optimizer $(<$B>)?;

            fn simple(&self) -> Self::Optimizer {
                self.build()
            }

            fn clipping(&self) -> Option<GradientClipping> {
                let clipping = fields::<GradClipping>(self).grad_clipping;
                clipping.map(|clipping| clipping.init())
            }

            $(
                fn rule(&self) -> Option<Rule> {
                    Some($rule(self))
                }

                fn state_of<const D: usize>(
                    parts: BurnState<B, D>,
                ) -> Option<<Self::Optimizer as SimpleOptimizer<B>>::State<D>> {
                    $states::state(parts)
                }

                fn parts_of<const D: usize>(
                    state: <Self::Optimizer as SimpleOptimizer<B>>::State<D>,
                ) -> Option<BurnState<B, D>> {
                    Some($states::parts(state))
                }
            )?
        })+
    };
}

optimizer_config! {
    SgdConfig => Sgd<B> by |config| rule::sgd(config, |momentum| momentum.elem::<B::FloatElem>().elem()), sgd;
    AdamConfig => Adam by rule::adam, adam;
    AdamWConfig => AdamW by rule::adam_w, adam_w;
    AdanConfig => Adan;
    AdaGradConfig => AdaGrad;
    RmsPropConfig => RmsProp;
    MuonConfig => Muon<B>;
}
