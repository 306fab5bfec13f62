//! The step of an optimizer over tensors of [`Counting`], which are those of the inner backend.

use burn_amp_kernels::{
    AmpBackend,
    optimizer::{ListStep, Listed, Moment, Stepped},
};

use super::Counting;

/// The same step for the inner backend.
pub(super) fn of_inner<B: AmpBackend>(step: ListStep<Counting<B>>) -> ListStep<B> {
    let ListStep {
        rule,
        lr,
        scaled_by,
        unless_overflowed,
        clip,
        parameters,
    } = step;
    let listed = |listed: Listed<Counting<B>>| {
        let Listed {
            parameter,
            gradient,
            factor,
            master,
            moments,
            key,
            rounds_stochastically,
            time,
            low,
        } = listed;
        let moments = moments.into_iter().map(|moment| match moment {
            Moment::Wide(tensor) => Moment::Wide(tensor),
            Moment::Bf16(words) => Moment::Bf16(words),
        });
        Listed {
            parameter,
            gradient,
            factor,
            master,
            moments: moments.collect(),
            key,
            rounds_stochastically,
            time,
            low,
        }
    };
    ListStep {
        rule,
        lr,
        scaled_by,
        unless_overflowed,
        clip,
        parameters: parameters.into_iter().map(listed).collect(),
    }
}

/// The same result for `Counting`.
pub(super) fn of_outer<B: AmpBackend>(stepped: Stepped<B>) -> Stepped<Counting<B>> {
    let Stepped {
        parameter,
        master,
        moments,
        low,
    } = stepped;
    let moments = moments.into_iter().map(|moment| match moment {
        Moment::Wide(tensor) => Moment::Wide(tensor),
        Moment::Bf16(words) => Moment::Bf16(words),
    });
    Stepped {
        parameter,
        master,
        moments: moments.collect(),
        low,
    }
}
