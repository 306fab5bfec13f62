//! Recipes: the form in which a precision stores parameters, and the optimizer that updates them.

use burn::{
    module::{AutodiffModule, Module},
    optim::Optimizer,
    tensor::backend::AutodiffBackend,
};
use burn_amp::{
    extend::{Amped, NoGraph},
    optim::{AmpOptimizer, MasterWeights, Masters, Moments},
};

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

/// Parameters as the preset in force stores them, with masters and moments in the forms with these numbers.
pub struct FewerBytes<const MASTERS: u8, const MOMENTS: u8>;

/// F32 masters.
pub const MASTERS_IN_F32: u8 = 0;
/// Masters in 2 bytes, where the parameters are BF16.
pub const MASTERS_IN_TWO_BYTES: u8 = 1;
/// Masters in 1 byte, where the parameters are BF16.
pub const MASTERS_IN_ONE_BYTE: u8 = 3;
/// No masters, but parameters that are rounded stochastically, where they are BF16.
pub const NO_MASTERS: u8 = 2;

/// Moments in BF16.
pub const MOMENTS_IN_BF16: u8 = 0;
/// Moments in blocks of 8 bits.
pub const MOMENTS_IN_8_BITS: u8 = 1;

impl<A, const MASTERS: u8, const MOMENTS: u8> Recipe<A> for FewerBytes<MASTERS, MOMENTS>
where
    A: Amped + AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
{
    fn store<M: Module<A>>(net: M) -> M {
        burn_amp::cast_params(net)
    }

    fn optimizer<M: AutodiffModule<A>>() -> impl Optimizer<M, A> {
        let masters = match MASTERS {
            MASTERS_IN_TWO_BYTES => Masters::Split,
            MASTERS_IN_ONE_BYTE => Masters::Bits24,
            NO_MASTERS => Masters::Stochastic,
            _ => Masters::F32,
        };
        let moments = match MOMENTS {
            MOMENTS_IN_8_BITS => Moments::Bits8,
            _ => Moments::Bf16,
        };
        AmpOptimizer::new(zoo::adamw())
            .with_masters(masters)
            .with_moments(moments)
            .init()
    }
}
