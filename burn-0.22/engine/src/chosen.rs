use std::{any::TypeId, cell::Cell};

use burn_backend::Backend;

use crate::{
    checkpoint::{
        builder::CheckpointerBuilder,
        retro_forward::RetroForward,
        strategy::{
            BalancedCheckpointing, CheckpointStrategy, CheckpointingError, NoCheckpointing,
        },
    },
    graph::ComputingProperty,
    tensor::AutodiffTensor,
};

thread_local! {
    static IS_BALANCED: Cell<bool> = const { Cell::new(false) };
}

/// The strategy that [`with`] has chosen on this thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen {}

/// Sets the choice back, also after a panic.
struct Restored(bool);

impl Drop for Restored {
    fn drop(&mut self) {
        IS_BALANCED.set(self.0);
    }
}

/// Runs a call under a checkpointing strategy: one of Burn's two, as nobody else can write one.
#[inline(always)]
pub fn with<C: CheckpointStrategy, R>(call: impl FnOnce() -> R) -> R {
    let is_balanced = TypeId::of::<C>() == TypeId::of::<BalancedCheckpointing>();
    let _restored = Restored(IS_BALANCED.replace(is_balanced));
    call()
}

/// Whether a strategy computes results again in the backward pass.
pub fn recomputes<C: CheckpointStrategy>() -> bool {
    TypeId::of::<C>() != TypeId::of::<NoCheckpointing>()
        && (TypeId::of::<C>() != TypeId::of::<Chosen>() || IS_BALANCED.get())
}

impl CheckpointStrategy for Chosen {
    fn compute_property<R: RetroForward>(retro_forward: R) -> ComputingProperty {
        if IS_BALANCED.get() {
            BalancedCheckpointing::compute_property(retro_forward)
        } else {
            NoCheckpointing::compute_property(retro_forward)
        }
    }

    fn checkpoint_parents<'a, B2, A>(
        parents: A,
        builder: &mut CheckpointerBuilder,
    ) -> Result<(), CheckpointingError>
    where
        B2: Backend,
        A: IntoIterator<Item = &'a AutodiffTensor<B2>>,
    {
        if IS_BALANCED.get() {
            BalancedCheckpointing::checkpoint_parents(parents, builder)
        } else {
            NoCheckpointing::checkpoint_parents(parents, builder)
        }
    }
}
