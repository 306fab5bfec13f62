//! The step in Burn's ops, parameter by parameter, in the order of Burn's own optimizers.

use burn_backend::{IntDType, TensorData, read_sync};

use super::{
    ListStepOf, ListedOf, Master, Moment, Place, Rule, Stepped, SteppedOf, StoredMomentOf, offset,
    parts::{flat, next},
    rounded,
    rounding::{Draw, LOW, LOWEST, without},
    rule_reference::{BeforeStep, moved, times},
    widened,
};
use crate::{
    loss_scale::{overflowed, scale_of},
    prelude::*,
};

/// Steps one parameter after the other.
pub(super) fn reference<B: Backend>(step: ListStepOf<B>) -> Vec<SteppedOf<B>> {
    let overflowed = step.unless_overflowed.map(overflowed::<B>);
    let unscale = step
        .scaled_by
        .map(|state| B::float_recip(scale_of::<B>(state)));
    let factors: Vec<_> = unscale.into_iter().chain(step.clip).collect();
    let parameters = step.parameters.into_iter();
    let stepped = parameters.map(|listed| {
        // burn-cubecl cannot broadcast to an empty tensor.
        if listed.parameter.shape().num_elements() == 0 {
            return listed.stepped(copy::<B>);
        }
        let old = overflowed.as_ref();
        let old = old.map(|_| listed.clone().stepped(copy::<B>));
        let new = moved_on::<B>(step.rule, step.lr, &factors, listed);
        match overflowed.clone().zip(old) {
            Some((overflowed, old)) => unless::<B>(overflowed, old, new),
            None => new,
        }
    });
    stepped.collect()
}

/// Steps a parameter, whose gradient is multiplied by factors of one element each.
fn moved_on<B: Backend>(
    rule: Rule,
    lr: f64,
    factors: &[FloatTensor<B>],
    listed: ListedOf<B>,
) -> SteppedOf<B> {
    let (stored, key) = (listed.parameter.dtype(), listed.key);
    let (form, old) = match listed.master {
        Master::Parameter => (Master::Parameter, widen::<B>(listed.parameter)),
        Master::F32(master) => (Master::F32(()), master),
        Master::Offset(offset) => {
            let dtype = offset.dtype();
            let master = offset::join::<B>(listed.parameter, offset);
            (Master::Offset(dtype), master)
        }
    };
    let formats: Vec<_> = listed.moments.iter().map(Moment::format).collect();
    let mut gradient = cast::<B>(listed.gradient, old.dtype());
    if listed.factor != 1.0 {
        gradient = times::<B>(gradient, listed.factor);
    }
    for factor in factors {
        let ones = Shape::from(vec![1; gradient.rank()]);
        let factor = cast::<B>(B::float_reshape(factor.clone(), ones), old.dtype());
        gradient = B::float_mul(gradient, factor);
    }
    let before = BeforeStep {
        lr,
        time: listed.time,
        gradient,
        moments: (listed.time > 1).then(|| wide::<B>(listed.moments, &old)),
        weights: old,
    };
    let (new, moments) = moved::<B>(rule, before);
    let moments = formats.into_iter().zip(moments).enumerate();
    let moments = moments
        .map(|(at, (format, moment))| rounded::<B>(moment, format, Place::at(at), Some(key)));
    let moments = moments.collect();
    let draw = |new, dropped| match listed.rounds_stochastically {
        true => drawn::<B>(new, dropped, key),
        false => new,
    };
    let (parameter, master) = match form {
        Master::Parameter => {
            let new = match stored {
                DType::BF16 => draw(new, LOW),
                _ => new,
            };
            (cast::<B>(new, stored), Master::Parameter)
        }
        Master::F32(()) => (cast::<B>(new.clone(), stored), Master::F32(new)),
        Master::Offset(DType::I8) => {
            let (parameter, offset) = offset::split::<B>(draw(new, LOWEST), IntDType::I8);
            (parameter, Master::Offset(offset))
        }
        Master::Offset(_) => {
            let (parameter, offset) = offset::split::<B>(new, IntDType::I16);
            (parameter, Master::Offset(offset))
        }
    };
    Stepped {
        low: listed.low.map(|low| copy::<B>(&parameter, low)),
        parameter,
        master,
        moments,
    }
}

/// Returns `old` if the backward pass overflowed, else `new`.
fn unless<B: Backend>(
    overflowed: BoolTensor<B>,
    old: SteppedOf<B>,
    new: SteppedOf<B>,
) -> SteppedOf<B> {
    let mask = |shape: Shape| {
        let ones = Shape::from(vec![1; shape.num_dims()]);
        B::bool_expand(B::bool_reshape(overflowed.clone(), ones), shape)
    };
    let old: TensorsOf<B> = flat([old]);
    let (mut floats, mut ints) = (old.floats.into_iter(), old.ints.into_iter());
    new.map(
        |new| {
            let mask = mask(new.shape());
            B::float_mask_where(new, mask, next(&mut floats))
        },
        |new| {
            let mask = mask(new.shape());
            B::int_mask_where(new, mask, next(&mut ints))
        },
    )
}

/// Returns the copy of a parameter in low precision.
fn copy<B: Backend>(parameter: &FloatTensor<B>, low: FloatDType) -> FloatTensor<B> {
    cast::<B>(parameter.clone(), low.into())
}

/// Returns moments in the shape and dtype of the weights.
fn wide<B: Backend>(
    moments: Vec<StoredMomentOf<B>>,
    weights: &FloatTensor<B>,
) -> Vec<FloatTensor<B>> {
    let (shape, dtype) = (weights.shape(), weights.dtype());
    let moments = moments.into_iter().enumerate();
    let wide =
        moments.map(|(at, moment)| widened::<B>(moment, shape.clone(), dtype, Place::at(at)));
    wide.collect()
}

/// Drops low bits of an F32 tensor by the draws of a key, on the host.
fn drawn<B: Backend>(tensor: FloatTensor<B>, dropped: u32, key: u32) -> FloatTensor<B> {
    let (device, shape) = (device_of::<B>(&tensor), tensor.shape());
    let data = read_sync(B::float_into_data(tensor)).expect("the device delivers parameters");
    let values = data.iter::<f32>().enumerate();
    let round = |(at, value)| without(dropped, value, Draw::new(key, at).for_parameter(dropped));
    let values: Vec<_> = values.map(round).collect();
    B::float_from_data(TensorData::new(values, shape), &device)
}
