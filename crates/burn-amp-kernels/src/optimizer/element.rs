//! The step of one element.

use cubecl::prelude::*;

use super::{
    code::Code,
    random::{draw, drawn},
    rounding::{LOW, LOWEST},
};
use crate::cube::{
    names::{OwnedBuffer, TensorView},
    random::mixed,
};
use crate::finite::EXPONENT;

/// The numbers of a rule that all parameters share. `kept` and `added` are the factors of a moment before the step and of
/// the gradient in it. `decay` is an L2 penalty, the factor of a parameter that decays, or the part that is taken from it
/// cautiously.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) lr: f32,
    pub(super) kept_1: f32,
    pub(super) added_1: f32,
    pub(super) kept_2: f32,
    pub(super) added_2: f32,
    pub(super) epsilon: f32,
    pub(super) decay: f32,
}

/// The numbers of one parameter.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Own {
    /// The factor of its gradient.
    pub(super) factor: f32,
    /// 1 if it has no moments yet.
    pub(super) is_first: u32,
    /// For Adam the factor of the first moment, for AdamW its divisor.
    pub(super) correction_1: f32,
    /// For Adam the summand of the root, for AdamW the divisor of the second moment.
    pub(super) correction_2: f32,
    /// The key of its random numbers.
    pub(super) key: u32,
}

/// The tensors of one parameter that a step writes: contiguous, and as long as the parameter, except words. Those that the code
/// does not need are missing.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Stored<P: Numeric, L: Numeric> {
    pub(super) own: Own,
    pub(super) parameter: OwnedBuffer<P>,
    pub(super) master: Sequence<OwnedBuffer<f32>>,
    pub(super) offset_16: Sequence<OwnedBuffer<i16>>,
    pub(super) offset_8: Sequence<OwnedBuffer<i8>>,
    /// The copy in low precision.
    pub(super) low: Sequence<OwnedBuffer<L>>,
    /// The moments, unless they are in words.
    pub(super) moments: Sequence<OwnedBuffer<f32>>,
    pub(super) words: Sequence<OwnedBuffer<u32>>,
}

/// What a step is for all elements.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Step {
    /// Whether the step is made: the backward pass did not overflow.
    pub(super) is_made: bool,
    /// What gradients are multiplied by.
    pub(super) unscale: f32,
    pub(super) clipping: f32,
    pub(super) numbers: Numbers,
}

/// The moments of one element; 0 for those that the rule does not have.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Moments {
    pub(super) first: f32,
    pub(super) second: f32,
    pub(super) largest: f32,
}

/// One of the moments.
#[cube]
pub(super) fn number(of: Moments, #[comptime] at: usize) -> f32 {
    match comptime!(at) {
        0 => of.first,
        1 => of.second,
        _ => of.largest,
    }
}

/// The weight and the moments of one element.
#[derive(CubeType, Clone, Copy)]
struct Moved {
    weight: f32,
    moments: Moments,
}

/// Steps the element at a position, if it has one and the step is made. Returns its moments, or zeros. Those
/// `before` the step mean nothing in a first one.
#[cube]
pub(super) fn step_or_copy<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &TensorView<G>,
    stored: &mut Stored<P, L>,
    before: Moments,
    step: Step,
    position: usize,
    #[comptime] code: Code,
) -> Moments {
    let mut first = f32::new(0.0);
    let mut second = f32::new(0.0);
    let mut largest = f32::new(0.0);
    if position < gradients.shape() {
        if step.is_made {
            let after = step_element::<G, P, L>(gradients, stored, before, step, position, code);
            first = after.first;
            second = after.second;
            largest = after.largest;
        } else {
            let weight = f32::cast_from(stored.parameter[position]);
            copy_low::<P, L>(stored, weight, position, code);
        }
    }
    Moments {
        first,
        second,
        largest,
    }
}

/// Steps the element at a position. Writes all but the moments, which it returns.
#[cube]
fn step_element<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &TensorView<G>,
    stored: &mut Stored<P, L>,
    before: Moments,
    step: Step,
    position: usize,
    #[comptime] code: Code,
) -> Moments {
    let own = stored.own;
    let weight = weight_at::<P, L>(stored, position, code);
    let mut gradient = f32::cast_from(gradients.read(position)) * own.factor;
    if comptime!(code.is_scaled) {
        gradient *= step.unscale;
    }
    if comptime!(code.is_clipped) {
        gradient *= step.clipping;
    }
    if comptime!(code.decays && !code.is_decoupled) {
        gradient += weight * step.numbers.decay;
    }
    let before = Moved {
        weight,
        moments: before,
    };
    let after = if comptime!(code.is_adam) {
        adam(before, gradient, own, step.numbers, code)
    } else {
        sgd(before, gradient, own, step.numbers, code)
    };
    let written = write::<P, L>(stored, after.weight, position, code);
    copy_low::<P, L>(stored, written, position, code);
    after.moments
}

/// Moves one element by Adam or AdamW.
#[cube]
fn adam(before: Moved, gradient: f32, own: Own, numbers: Numbers, #[comptime] code: Code) -> Moved {
    let mut weight = before.weight;
    let mut first = gradient * numbers.added_1;
    let mut second = gradient * gradient * numbers.added_2;
    let mut largest = second;
    if own.is_first == 0u32 {
        first += before.moments.first * numbers.kept_1;
        second += before.moments.second * numbers.kept_2;
        largest = second;
        if comptime!(code.amsgrad) {
            let old = before.moments.largest;
            largest = select(old < second, second, old);
        }
    }
    let delta = if comptime!(code.is_decoupled) {
        let root = f32::sqrt(largest / own.correction_2) + numbers.epsilon;
        if comptime!(code.is_cautious) {
            let agree = (weight >= 0.0) == (first >= 0.0);
            weight -= select(agree, weight * numbers.decay, f32::new(0.0));
        } else if comptime!(code.decays) {
            weight *= numbers.decay;
        }
        first / own.correction_1 / root
    } else {
        let root = f32::sqrt(largest) + own.correction_2;
        first * own.correction_1 / root
    };
    weight -= delta * numbers.lr;
    Moved {
        weight,
        moments: Moments {
            first,
            second,
            largest,
        },
    }
}

/// Moves one element by SGD.
#[cube]
fn sgd(before: Moved, gradient: f32, own: Own, numbers: Numbers, #[comptime] code: Code) -> Moved {
    let mut first = f32::new(0.0);
    let mut delta = gradient;
    if comptime!(code.has_momentum) {
        first = gradient;
        if own.is_first == 0u32 {
            first = gradient * numbers.added_1 + before.moments.first * numbers.kept_1;
        }
        delta = first;
        if comptime!(code.nesterov) {
            delta = first * numbers.kept_1 + gradient;
        }
    }
    Moved {
        weight: before.weight - delta * numbers.lr,
        moments: Moments {
            first,
            second: f32::new(0.0),
            largest: f32::new(0.0),
        },
    }
}

/// Reads the weight of an element: the master, or the parameter if it is its own.
#[cube]
fn weight_at<P: Numeric, L: Numeric>(
    stored: &mut Stored<P, L>,
    position: usize,
    #[comptime] code: Code,
) -> f32 {
    if comptime!(code.has_master) {
        stored.master.index(0usize)[position]
    } else {
        let weight = f32::cast_from(stored.parameter[position]);
        if comptime!(code.offset_bits == 16) {
            let offset = i32::cast_from(stored.offset_16.index(0usize)[position]);
            f32::from_bits(f32::to_bits(weight) + u32::cast_from(offset))
        } else if comptime!(code.offset_bits == 8) {
            let offset = i32::cast_from(stored.offset_8.index(0usize)[position]);
            f32::from_bits(f32::to_bits(weight) + u32::cast_from(offset * 256))
        } else {
            weight
        }
    }
}

/// Writes the weight of an element to the parameter and its master; returns it as it was written to the parameter.
#[cube]
fn write<P: Numeric, L: Numeric>(
    stored: &mut Stored<P, L>,
    weight: f32,
    position: usize,
    #[comptime] code: Code,
) -> f32 {
    let mut weight = weight;
    if comptime!(code.draws_weight || code.offset_bits == 8) {
        let dropped = comptime!(if code.offset_bits == 8 { LOWEST } else { LOW });
        let random = if comptime!(code.draws_weight) {
            mixed(draw(position, stored.own.key)) & dropped
        } else {
            comptime!((dropped >> 1) + 1).runtime()
        };
        weight = f32::from_bits(drawn(weight, random, dropped));
    }
    if comptime!(code.has_master) {
        stored.master.index_mut(0usize)[position] = weight;
    }
    if comptime!(code.offset_bits > 0) {
        let bits = f32::to_bits(weight);
        let is_finite = (bits & EXPONENT) != EXPONENT;
        // The nearest BF16, ties away from zero; of what is not finite, the rest is dropped.
        let upper = drawn(weight, 0x8000u32, LOW);
        let offset = i32::cast_from(select(is_finite, bits - upper, 0u32));
        if comptime!(code.offset_bits == 16) {
            stored.offset_16.index_mut(0usize)[position] = i16::cast_from(offset);
        } else {
            stored.offset_8.index_mut(0usize)[position] = i8::cast_from(offset / 256);
        }
        weight = f32::from_bits(upper);
    }
    let weight = P::cast_from(weight);
    stored.parameter[position] = weight;
    f32::cast_from(weight)
}

/// Writes the copy of an element in low precision, if there is one.
#[cube]
fn copy_low<P: Numeric, L: Numeric>(
    stored: &mut Stored<P, L>,
    weight: f32,
    position: usize,
    #[comptime] code: Code,
) {
    if comptime!(code.has_low) {
        stored.low.index_mut(0usize)[position] = L::cast_from(weight);
    }
}
