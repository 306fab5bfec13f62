//! Recipes: the form in which a precision stores parameters, and the optimizer that updates them.

use burn::{
    module::{AutodiffModule, Module},
    optim::Optimizer,
    tensor::backend::AutodiffBackend,
};
use burn_amp::{extend::Amped, optim::MasterWeights};

pub trait Recipe<B: AutodiffBackend> {
    /// Returns the net with its parameters stored as the precision requires.
    fn store<M: Module<B>>(net: M) -> M;

    /// Makes the zoo's AdamW, with masters if the recipe needs them.
    fn optimizer<M: AutodiffModule<B>>() -> impl Optimizer<M, B>;
}

/// F32 parameters that are their own master weights.
pub struct StoredInF32;

impl<B: AutodiffBackend> Recipe<B> for StoredInF32 {
    fn store<M: Module<B>>(net: M) -> M {
        net
    }

    fn optimizer<M: AutodiffModule<B>>() -> impl Optimizer<M, B> {
        zoo::adamw().init()
    }
}

/// Parameters as the preset in force stores them, with F32 master weights in the optimizer.
pub struct MastersInF32;

impl<A: Amped + AutodiffBackend> Recipe<A> for MastersInF32 {
    fn store<M: Module<A>>(net: M) -> M {
        burn_amp::cast_params(net)
    }

    fn optimizer<M: AutodiffModule<A>>() -> impl Optimizer<M, A> {
        MasterWeights::new(zoo::adamw()).init()
    }
}
