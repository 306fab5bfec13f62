//! The step in Burn's ops, parameter by parameter, in the order of Burn's own optimizers.

use burn_backend::{TensorData, bf16, read_sync};

use super::{
    ListStep, Listed, Master, Moment, Place, Rule, Stepped, offset,
    rounding::{Draw, to_bf16},
    rule_reference::{BeforeStep, moved, times},
};
use crate::{
    loss_scale::{overflowed, scale_of},
    prelude::*,
};

/// Steps one parameter after the other.
pub fn reference<B: Backend>(step: ListStep<B>) -> Vec<Stepped<B>> {
    let ListStep {
        rule,
        lr,
        scaled_by,
        unless_overflowed,
        clip,
        parameters,
    } = step;
    let common = Common::<B> {
        rule,
        lr,
        factors: [
            scaled_by.map(|state| B::float_recip(scale_of::<B>(state))),
            clip,
        ]
        .into_iter()
        .flatten()
        .collect(),
        overflowed: unless_overflowed.map(overflowed::<B>),
    };
    let parameters = parameters.into_iter();
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
    fn step(&self, listed: Listed<B>) -> Stepped<B> {
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
        let stored = parameter.dtype();
        let in_low = |parameter: &FloatTensor<B>| {
            low.map(|low| cast::<B>(parameter.clone(), DType::from(low)))
        };
        // burn-cubecl cannot broadcast to an empty tensor.
        if parameter.shape().num_elements() == 0 {
            return Stepped {
                low: in_low(&parameter),
                parameter,
                master,
                moments,
            };
        }
        let has_master = master.is_some();
        let has_offset = matches!(master, Some(Master::Offset(_)));
        let old = match master {
            None => widen::<B>(parameter),
            Some(Master::F32(master)) => master,
            Some(Master::Offset(offset)) => offset::join::<B>(parameter, offset),
        };
        let gradient = self.unscaled(gradient, factor, old.dtype());
        let formats: Vec<_> = moments.iter().map(Moment::format).collect();
        let kept = self.overflowed.as_ref().map(|_| moments.clone());
        let before = BeforeStep {
            lr: self.lr,
            time,
            weights: old.clone(),
            gradient,
            moments: (time > 1).then(|| widened(moments, &old)),
        };
        let (new, moments) = moved::<B>(self.rule, before);
        let new = self.unless_overflowed(old, new);
        let moments = formats.into_iter().zip(moments).enumerate();
        let moments = moments.map(|(at, (format, moment))| {
            Moment::rounded(moment, format, Place::at(at), Some(key))
        });
        let moments = self.moments_unless_overflowed(kept, moments.collect());
        let (parameter, master) = if has_offset {
            let (parameter, offset) = offset::split::<B>(new);
            (parameter, Some(Master::Offset(offset)))
        } else {
            let key = (rounds_stochastically && !has_master).then_some(key);
            let parameter = as_stored::<B>(new.clone(), stored, key);
            (parameter, has_master.then_some(Master::F32(new)))
        };
        Stepped {
            low: in_low(&parameter),
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

    /// The same for moments, of which the old ones are `None` if the host knows that the pass did not overflow.
    fn moments_unless_overflowed(
        &self,
        old: Option<Vec<Moment<B>>>,
        new: Vec<Moment<B>>,
    ) -> Vec<Moment<B>> {
        let Some(old) = old else {
            return new;
        };
        let moments = old.into_iter().zip(new);
        let moments = moments.map(|(old, new)| self.moment_unless_overflowed(old, new));
        moments.collect()
    }

    /// The same for moments of one format.
    fn moment_unless_overflowed(&self, old: Moment<B>, new: Moment<B>) -> Moment<B> {
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

/// Returns moments in the shape and dtype of the weights.
fn widened<B: Backend>(moments: Vec<Moment<B>>, weights: &FloatTensor<B>) -> Vec<FloatTensor<B>> {
    let (shape, dtype) = (weights.shape(), weights.dtype());
    let moments = moments.into_iter().enumerate();
    let wide = moments.map(|(at, moment)| moment.widened(shape.clone(), dtype, Place::at(at)));
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
