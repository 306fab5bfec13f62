//! The step of an optimizer over tensors of [`Counting`], which are those of the inner backend.

use burn_amp_kernels::{
    AmpBackend,
    optimizer::{ListStep, Listed, Master, Moment, Stepped},
};
use burn_backend::Backend;

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
        let moments = moments.into_iter().map(moment);
        Listed {
            parameter,
            gradient,
            factor,
            master: master.map(self::master),
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
    let moments = moments.into_iter().map(moment);
    Stepped {
        parameter,
        master: master.map(self::master),
        moments: moments.collect(),
        low,
    }
}

/// The moment of another backend with the same tensors.
fn moment<A, B>(moment: Moment<A>) -> Moment<B>
where
    A: Backend,
    B: Backend<
            FloatTensorPrimitive = A::FloatTensorPrimitive,
            IntTensorPrimitive = A::IntTensorPrimitive,
        >,
{
    match moment {
        Moment::Wide(tensor) => Moment::Wide(tensor),
        Moment::Bf16(words) => Moment::Bf16(words),
        Moment::Bits8(words) => Moment::Bits8(words),
    }
}

/// The master of another backend with the same tensors.
fn master<A, B>(master: Master<A>) -> Master<B>
where
    A: Backend,
    B: Backend<
            FloatTensorPrimitive = A::FloatTensorPrimitive,
            IntTensorPrimitive = A::IntTensorPrimitive,
        >,
{
    match master {
        Master::F32(tensor) => Master::F32(tensor),
        Master::Offset(offset) => Master::Offset(offset),
    }
}
