//! The step in Burn's ops, parameter by parameter, in the order of Burn's own optimizers.

use burn_backend::{Scalar, TensorData, bf16, read_sync};

use super::{
    AdamRule, Decay, ListStep, Listed, Master, Moment, Place, Rule, SgdMomentum, SgdRule, Stepped,
    offset,
    rounding::{Draw, to_bf16},
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
        let (shape, wide) = (old.shape(), old.dtype());
        let formats: Vec<_> = moments.iter().map(Moment::format).collect();
        let kept = self.overflowed.as_ref().map(|_| moments.clone());
        let moments = moments.into_iter().enumerate();
        let previous = (time > 1).then(|| {
            let wide =
                moments.map(|(at, moment)| moment.widened(shape.clone(), wide, Place::at(at)));
            wide.collect()
        });
        let (new, moments) = match self.rule {
            Rule::Adam(rule) => adam::<B>(rule, self.lr, time, old.clone(), gradient, previous),
            Rule::AdamW(rule, decay) => {
                adam_w::<B>(rule, decay, self.lr, time, old.clone(), gradient, previous)
            }
            Rule::Sgd(rule) => sgd::<B>(rule, self.lr, old.clone(), gradient, previous),
        };
        let new = self.unless_overflowed(old, new);
        let moments = formats.into_iter().zip(moments).enumerate();
        let moments = moments.map(|(at, (format, moment))| {
            Moment::rounded(moment, format, Place::at(at), Some(key))
        });
        let moments = match kept {
            None => moments.collect(),
            Some(kept) => {
                let moments = kept.into_iter().zip(moments);
                let moments = moments.map(|(old, new)| self.moment_unless_overflowed(old, new));
                moments.collect()
            }
        };
        let is_drawn = rounds_stochastically && !has_master && stored == DType::BF16;
        if has_offset {
            let (parameter, offset) = offset::split::<B>(new);
            return Stepped {
                low: in_low(&parameter),
                parameter,
                master: Some(Master::Offset(offset)),
                moments,
            };
        }
        let parameter = if is_drawn {
            bf16_on_host::<B>(new.clone(), |index, value| {
                to_bf16(value, Draw::new(key, index).for_parameter())
            })
        } else {
            cast::<B>(new.clone(), stored)
        };
        Stepped {
            low: in_low(&parameter),
            parameter,
            master: has_master.then_some(Master::F32(new)),
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

/// Rounds a tensor to BF16 on the host.
fn bf16_on_host<B: Backend>(
    tensor: FloatTensor<B>,
    round: impl Fn(usize, f32) -> u16,
) -> FloatTensor<B> {
    let device = B::float_device(&tensor);
    let data = read_sync(B::float_into_data(tensor)).expect("the device delivers parameters");
    let values = data.iter::<f32>().enumerate();
    let values: Vec<_> = values
        .map(|(at, value)| bf16::from_bits(round(at, value)))
        .collect();
    B::float_from_data(TensorData::new(values, data.shape), &device)
}

type Moments<B> = Vec<FloatTensor<B>>;

/// Burn's `Adam`.
fn adam<B: Backend>(
    rule: AdamRule,
    lr: f64,
    time: i32,
    weights: FloatTensor<B>,
    gradient: FloatTensor<B>,
    moments: Option<Moments<B>>,
) -> (FloatTensor<B>, Moments<B>) {
    let gradient = penalized::<B>(gradient, &weights, rule.penalty);
    let moments = adam_moments::<B>(rule, gradient, moments);
    let [correction_1, correction_2] = rule.corrections(time);
    let correction_2 = correction_2.sqrt();
    let mean = times::<B>(moments[0].clone(), correction_2 / correction_1);
    let root = B::float_sqrt(used_second_moment::<B>(&moments));
    let root = plus::<B>(root, rule.epsilon * correction_2);
    let delta = times::<B>(B::float_div(mean, root), lr);
    (B::float_sub(weights, delta), moments)
}

/// Burn's `AdamW`.
fn adam_w<B: Backend>(
    rule: AdamRule,
    decay: Decay,
    lr: f64,
    time: i32,
    weights: FloatTensor<B>,
    gradient: FloatTensor<B>,
    moments: Option<Moments<B>>,
) -> (FloatTensor<B>, Moments<B>) {
    let moments = adam_moments::<B>(rule, gradient, moments);
    let [correction_1, correction_2] = rule.corrections(time);
    let mean = B::float_div_scalar(moments[0].clone(), scalar(correction_1));
    let square = B::float_div_scalar(used_second_moment::<B>(&moments), scalar(correction_2));
    let root = plus::<B>(B::float_sqrt(square), rule.epsilon);
    let delta = B::float_div(mean, root);

    let rate = lr * f64::from(decay.rate);
    let decayed = if rate == 0.0 {
        weights
    } else if decay.cautious {
        let bool_dtype = get_device_settings::<B>(&B::float_device(&weights)).bool_dtype;
        let is_positive =
            |x: FloatTensor<B>| B::float_greater_equal_elem(x, scalar(0.0), bool_dtype);
        let differ = B::bool_not_equal(
            is_positive(weights.clone()),
            is_positive(moments[0].clone()),
        );
        let decay = times::<B>(weights.clone(), rate);
        B::float_sub(weights, B::float_mask_fill(decay, differ, scalar(0.0)))
    } else {
        times::<B>(weights, 1.0 - rate)
    };
    (B::float_sub(decayed, times::<B>(delta, lr)), moments)
}

/// The moments of Adam after the step; without moments before it, they are those of the first step.
fn adam_moments<B: Backend>(
    rule: AdamRule,
    gradient: FloatTensor<B>,
    moments: Option<Moments<B>>,
) -> Moments<B> {
    let mut old = moments.map(Vec::into_iter);
    // In the order of Burn's ops: the moment before the step, then the gradient in it.
    let mut moved = |beta: f32, added: &dyn Fn() -> FloatTensor<B>| match &mut old {
        Some(old) => {
            let old = old.next().expect("as many moments as the rule has");
            let kept = times::<B>(old, beta);
            B::float_add(kept, times::<B>(added(), 1.0 - beta))
        }
        None => times::<B>(added(), 1.0 - beta),
    };
    let first = moved(rule.beta_1, &|| gradient.clone());
    let second = moved(rule.beta_2, &|| {
        B::float_powi_scalar(gradient.clone(), 2.into())
    });
    let largest = old.and_then(|mut old| old.next());
    let mut moments = vec![first, second.clone()];
    if rule.amsgrad {
        moments.push(match largest {
            Some(largest) => {
                let bool_dtype = get_device_settings::<B>(&B::float_device(&largest)).bool_dtype;
                let rises = B::float_lower(largest.clone(), second.clone(), bool_dtype);
                B::float_mask_where(largest, rises, second)
            }
            None => second,
        });
    }
    moments
}

/// The second moment, or with amsgrad the largest one so far.
fn used_second_moment<B: Backend>(moments: &Moments<B>) -> FloatTensor<B> {
    moments.last().expect("Adam has moments").clone()
}

/// Burn's `Sgd`.
fn sgd<B: Backend>(
    rule: SgdRule,
    lr: f64,
    weights: FloatTensor<B>,
    gradient: FloatTensor<B>,
    moments: Option<Moments<B>>,
) -> (FloatTensor<B>, Moments<B>) {
    let gradient = penalized::<B>(gradient, &weights, rule.penalty);
    let (gradient, moments) = match rule.momentum {
        Some(SgdMomentum {
            momentum,
            dampening,
            nesterov,
        }) => {
            let velocity = match moments.and_then(|moments| moments.into_iter().next()) {
                Some(velocity) => B::float_add(
                    times::<B>(gradient.clone(), 1.0 - dampening),
                    times::<B>(velocity, momentum),
                ),
                None => gradient.clone(),
            };
            let gradient = if nesterov {
                B::float_add(times::<B>(velocity.clone(), momentum), gradient)
            } else {
                velocity.clone()
            };
            (gradient, vec![velocity])
        }
        None => (gradient, Vec::new()),
    };
    let delta = times::<B>(gradient, lr);
    (B::float_sub(weights, delta), moments)
}

fn penalized<B: Backend>(
    gradient: FloatTensor<B>,
    weights: &FloatTensor<B>,
    penalty: Option<f32>,
) -> FloatTensor<B> {
    match penalty {
        Some(penalty) => B::float_add(times::<B>(weights.clone(), penalty), gradient),
        None => gradient,
    }
}

fn times<B: Backend>(x: FloatTensor<B>, factor: impl Into<f64>) -> FloatTensor<B> {
    B::float_mul_scalar(x, scalar(factor))
}

fn plus<B: Backend>(x: FloatTensor<B>, summand: f32) -> FloatTensor<B> {
    B::float_add_scalar(x, scalar(summand))
}

fn scalar(value: impl Into<f64>) -> Scalar {
    Scalar::Float(value.into())
}
