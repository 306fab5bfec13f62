//! The step in Burn's ops, parameter by parameter, in the order of Burn's own optimizers.

use burn_backend::{TensorData, bf16, read_sync};

use super::{
    ListStepOf, ListedOf, Master, Moment, Place, Rule, Stepped, SteppedOf, StoredMomentOf, offset,
    rounded,
    rounding::{Draw, to_bf16},
    rule_reference::{BeforeStep, moved, times},
    widened,
};
use crate::{
    loss_scale::{overflowed, scale_of},
    prelude::*,
};

/// Steps one parameter after the other.
pub fn reference<B: Backend>(step: ListStepOf<B>) -> Vec<SteppedOf<B>> {
    let unscale = step
        .scaled_by
        .map(|state| B::float_recip(scale_of::<B>(state)));
    let common = Common::<B> {
        rule: step.rule,
        lr: step.lr,
        factors: unscale.into_iter().chain(step.clip).collect(),
        overflowed: step.unless_overflowed.map(overflowed::<B>),
    };
    let parameters = step.parameters.into_iter();
    parameters.map(|listed| common.step(listed)).collect()
}

/// What the parameters of a list have in common.
struct Common<B: Backend> {
    rule: Rule,
    lr: f64,
    /// Factors of the gradients, one element each.
    factors: Vec<FloatTensor<B>>,
    overflowed: Option<BoolTensor<B>>,
}

impl<B: Backend> Common<B> {
    fn step(&self, listed: ListedOf<B>) -> SteppedOf<B> {
        // burn-cubecl cannot broadcast to an empty tensor.
        if listed.parameter.shape().num_elements() == 0 {
            return listed.stepped(copy::<B>);
        }
        let (stored, key) = (listed.parameter.dtype(), listed.key);
        let (form, old) = match listed.master {
            Master::Parameter => (Master::Parameter, widen::<B>(listed.parameter)),
            Master::F32(master) => (Master::F32(()), master),
            Master::Offset(offset) => {
                let master = offset::join::<B>(listed.parameter, offset);
                (Master::Offset(()), master)
            }
        };
        let formats: Vec<_> = listed.moments.iter().map(Moment::format).collect();
        let kept = self.overflowed.as_ref().map(|_| listed.moments.clone());
        let mut kept = kept.into_iter().flatten();
        let before = BeforeStep {
            lr: self.lr,
            time: listed.time,
            weights: old.clone(),
            gradient: self.unscaled(listed.gradient, listed.factor, old.dtype()),
            moments: (listed.time > 1).then(|| wide::<B>(listed.moments, &old)),
        };
        let (new, moments) = moved::<B>(self.rule, before);
        let new = self.unless_overflowed(old, new);
        let moments = formats.into_iter().zip(moments).enumerate();
        let moments = moments.map(|(at, (format, moment))| {
            let moment = rounded::<B>(moment, format, Place::at(at), Some(key));
            match kept.next() {
                Some(old) => self.moment_unless_overflowed(old, moment),
                None => moment,
            }
        });
        let moments = moments.collect();
        let (parameter, master) = match form {
            Master::Parameter => {
                let key = listed.rounds_stochastically.then_some(key);
                (as_stored::<B>(new, stored, key), Master::Parameter)
            }
            Master::F32(()) => (cast::<B>(new.clone(), stored), Master::F32(new)),
            Master::Offset(()) => {
                let (parameter, offset) = offset::split::<B>(new);
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

    /// Returns the gradient in `dtype`, times all factors.
    fn unscaled(&self, gradient: FloatTensor<B>, factor: f32, dtype: DType) -> FloatTensor<B> {
        let mut gradient = cast::<B>(gradient, dtype);
        if factor != 1.0 {
            gradient = times::<B>(gradient, factor);
        }
        for factor in &self.factors {
            let ones = Shape::from(vec![1; gradient.rank()]);
            let factor = cast::<B>(B::float_reshape(factor.clone(), ones), dtype);
            gradient = B::float_mul(gradient, factor);
        }
        gradient
    }

    /// Returns `old` if the backward pass overflowed, else `new`.
    fn unless_overflowed(&self, old: FloatTensor<B>, new: FloatTensor<B>) -> FloatTensor<B> {
        match self.mask(new.shape()) {
            Some(mask) => B::float_mask_where(new, mask, old),
            None => new,
        }
    }

    /// The same for a moment.
    fn moment_unless_overflowed(
        &self,
        old: StoredMomentOf<B>,
        new: StoredMomentOf<B>,
    ) -> StoredMomentOf<B> {
        let words = |old: IntTensor<B>, new: IntTensor<B>| match self.mask(new.shape()) {
            Some(mask) => B::int_mask_where(new, mask, old),
            None => new,
        };
        match (old, new) {
            (Moment::Wide(old), Moment::Wide(new)) => {
                Moment::Wide(self.unless_overflowed(old, new))
            }
            (Moment::Bf16(old), Moment::Bf16(new)) => Moment::Bf16(words(old, new)),
            (Moment::Bits8(old), Moment::Bits8(new)) => Moment::Bits8(words(old, new)),
            (_, new) => unreachable!("a step keeps the format {:?}", new.format()),
        }
    }

    /// Whether the backward pass overflowed, in a shape; `None` if the host knows that it did not.
    fn mask(&self, shape: Shape) -> Option<BoolTensor<B>> {
        let overflowed = self.overflowed.clone()?;
        let ones = Shape::from(vec![1; shape.num_dims()]);
        Some(B::bool_expand(B::bool_reshape(overflowed, ones), shape))
    }
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

/// Rounds a tensor to the dtype of a parameter: to the nearest, or with a key on the host to BF16 by its draws.
fn as_stored<B: Backend>(tensor: FloatTensor<B>, dtype: DType, key: Option<u32>) -> FloatTensor<B> {
    let Some(key) = key.filter(|_| dtype == DType::BF16) else {
        return cast::<B>(tensor, dtype);
    };
    let device = B::float_device(&tensor);
    let data = read_sync(B::float_into_data(tensor)).expect("the device delivers parameters");
    let values = data.iter::<f32>().enumerate();
    let round = |(at, value)| bf16::from_bits(to_bf16(value, Draw::new(key, at).for_parameter()));
    let values: Vec<_> = values.map(round).collect();
    B::float_from_data(TensorData::new(values, data.shape), &device)
}
