//! Burn's form of a state.

use burn::{
    optim::momentum::MomentumConfig,
    tensor::{Tensor, backend::Backend},
};

/// The state of an optimizer as Burn keeps it: the number of steps, and the moments.
pub(in crate::optim) type BurnState<B, const D: usize> = (usize, Vec<Tensor<B, D>>);

pub(in crate::optim) mod adam {
    use burn::optim::{AdamState, AdaptiveMomentumState};

    use super::*;

    pub fn state<B: Backend, const D: usize>(parts: BurnState<B, D>) -> Option<AdamState<B, D>> {
        momentum(parts).map(AdamState::new)
    }

    pub fn parts<B: Backend, const D: usize>(state: AdamState<B, D>) -> BurnState<B, D> {
        momentum_parts(state.momentum)
    }

    pub fn momentum<B: Backend, const D: usize>(
        (time, moments): BurnState<B, D>,
    ) -> Option<AdaptiveMomentumState<B, D>> {
        let mut moments = moments.into_iter();
        let mut momentum = AdaptiveMomentumState::new(time, moments.next()?, moments.next()?);
        momentum.max_moment_2 = moments.next();
        Some(momentum)
    }

    pub fn momentum_parts<B: Backend, const D: usize>(
        momentum: AdaptiveMomentumState<B, D>,
    ) -> BurnState<B, D> {
        let AdaptiveMomentumState {
            time,
            moment_1,
            moment_2,
            max_moment_2,
        } = momentum;
        let moments = [moment_1, moment_2].into_iter().chain(max_moment_2);
        (time, moments.collect())
    }
}

pub(in crate::optim) mod adam_w {
    use burn::optim::AdamWState;

    use super::*;

    pub fn state<B: Backend, const D: usize>(parts: BurnState<B, D>) -> Option<AdamWState<B, D>> {
        adam::momentum(parts).map(AdamWState::new)
    }

    pub fn parts<B: Backend, const D: usize>(state: AdamWState<B, D>) -> BurnState<B, D> {
        adam::momentum_parts(state.momentum)
    }
}

pub(in crate::optim) mod sgd {
    use burn::optim::{SgdConfig, SgdState, SimpleOptimizer, momentum::MomentumState};

    use super::*;

    pub fn state<B: Backend, const D: usize>(
        (_, moments): BurnState<B, D>,
    ) -> Option<SgdState<B, D>> {
        let velocity = moments.into_iter().next()?;
        Some(SgdState::new(Some(MomentumState::new(velocity))))
    }

    /// The velocity of Burn's state is private, but a step of momentum 1 and learning rate -1 from zeros, without a
    /// gradient, ends at it: `0 - -(0 + 1 · velocity)`.
    pub fn parts<B: Backend, const D: usize>(state: SgdState<B, D>) -> BurnState<B, D> {
        let Some(momentum) = state.momentum else {
            return (0, Vec::new());
        };
        let device = B::Device::default();
        let momentum = momentum.to_device(&device);
        let undampened = MomentumConfig::new().with_momentum(1.0).with_dampening(0.0);
        let optimizer = SgdConfig::new()
            .with_momentum(Some(undampened))
            .build::<B>();
        let zero = Tensor::<B, D>::zeros([1; D], &device);
        let state = SgdState::new(Some(momentum));
        let (velocity, _) = optimizer.step(-1.0, zero.clone(), zero, Some(state));
        (1, vec![velocity])
    }
}
