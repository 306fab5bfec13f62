use burn_backend::{Backend, DType, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::{
    AdamRule, ListStep, Listed, Moment, Rule, SgdMomentum, SgdRule, Stepped, rounding::FACTORS,
};
use crate::{
    cube::{lists, plan::storage},
    finite::EXPONENT,
    loss_scale::{OVERFLOWED, SCALE},
};

/// What the code of a kernel depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code {
    /// Adam or AdamW, not SGD.
    is_adam: bool,
    /// Whether the parameter decays apart from the gradient.
    is_decoupled: bool,
    decays: bool,
    is_cautious: bool,
    amsgrad: bool,
    has_momentum: bool,
    nesterov: bool,
    has_master: bool,
    has_low: bool,
    is_scaled: bool,
    may_overflow: bool,
    is_clipped: bool,
    /// Whether the moments are BF16, two in a word.
    has_words: bool,
    /// Whether the parameter is rounded stochastically.
    draws_parameter: bool,
}

/// The same bijection as [`mixed`](super::rounding::mixed).
#[cube]
fn mixed(x: u32) -> u32 {
    let x = (x ^ (x >> 16u32)) * FACTORS[0];
    let x = (x ^ (x >> 15u32)) * FACTORS[1];
    x ^ (x >> 16u32)
}

/// Rounds to BF16 with 16 random bits, as [`to_bf16`](super::rounding::to_bf16) does; returns the bits of the rounded
/// number as an F32.
#[cube]
fn drawn(x: f32, random: u32) -> u32 {
    let bits = f32::to_bits(x);
    let is_finite = (bits & EXPONENT) != EXPONENT;
    let is_nan = (bits & 0x7fff_ffffu32) > EXPONENT;
    let kept = bits | select(is_nan, 0x0040_0000u32, 0u32);
    select(is_finite, bits + random, kept) & 0xffff_0000u32
}

/// One of the two BF16 of a word, widened.
#[cube]
fn unpacked(word: u32, #[comptime] lane: u32) -> f32 {
    let bits = if comptime!(lane == 0) {
        word << 16u32
    } else {
        word & 0xffff_0000u32
    };
    f32::from_bits(bits)
}

/// The bits of a rounded number at their place in a word.
#[cube]
fn packed(bits: u32, #[comptime] lane: u32) -> u32 {
    if comptime!(lane == 0) {
        bits >> 16u32
    } else {
        bits
    }
}

/// Every unit strides over all parameters.
///
/// Gradients have any layout; all other tensors are contiguous, and as long. Lists of what the code does not need are
/// empty. `firsts` says which parameters have no moments yet. `kept` and `added` are the factors of a moment before the
/// step and of the gradient in it. `corrections_1` and `corrections_2` are for Adam the factor of the first moment and
/// the summand of the root, for AdamW the divisors of both moments. `decay` is an L2 penalty, the factor of a parameter
/// that decays, or the part that is taken from it cautiously.
#[cube(launch)]
fn optimizer_kernel<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &Sequence<LinearView<G>>,
    parameters: &mut Sequence<Array<P>>,
    masters: &mut Sequence<Array<f32>>,
    first_moments: &mut Sequence<Array<f32>>,
    second_moments: &mut Sequence<Array<f32>>,
    largest_moments: &mut Sequence<Array<f32>>,
    first_words: &mut Sequence<Array<u32>>,
    second_words: &mut Sequence<Array<u32>>,
    largest_words: &mut Sequence<Array<u32>>,
    lows: &mut Sequence<Array<L>>,
    factors: &Sequence<f32>,
    firsts: &Sequence<u32>,
    corrections_1: &Sequence<f32>,
    corrections_2: &Sequence<f32>,
    keys: &Sequence<u32>,
    scaled_by: &Sequence<Array<f32>>,
    unless_overflowed: &Sequence<Array<f32>>,
    clip: &Sequence<Array<f32>>,
    lr: f32,
    kept_1: f32,
    added_1: f32,
    kept_2: f32,
    added_2: f32,
    epsilon: f32,
    decay: f32,
    #[comptime] code: Code,
    #[define(G)] _gradient: StorageType,
    #[define(P)] _parameter: StorageType,
    #[define(L)] _low: StorageType,
) {
    let mut state = f32::new(0.0);
    if comptime!(code.may_overflow) {
        state = unless_overflowed.index(0usize)[OVERFLOWED];
    }
    let is_made = state <= 0.0;
    let mut unscale = f32::new(1.0);
    if comptime!(code.is_scaled) {
        unscale = 1.0 / scaled_by.index(0usize)[SCALE];
    }
    let mut clipping = f32::new(1.0);
    if comptime!(code.is_clipped) {
        clipping = clip.index(0usize)[0];
    }
    let lanes = comptime!(if code.has_words { 2usize } else { 1usize });
    #[unroll]
    for at in 0..gradients.len() {
        let gradients = gradients.index(at);
        let is_first = *firsts.index(at) == 1u32;
        let factor = *factors.index(at);
        let correction_1 = *corrections_1.index(at);
        let correction_2 = *corrections_2.index(at);
        let key = *keys.index(at);
        let length = gradients.shape();
        let mut turn = ABSOLUTE_POS;
        while turn * lanes < length {
            let mut first_word = 0u32;
            let mut second_word = 0u32;
            let mut largest_word = 0u32;
            #[unroll]
            for lane in 0..lanes {
                let position = turn * lanes + lane;
                let side = comptime!(lane as u32);
                if position < length {
                    let mut weight = if comptime!(code.has_master) {
                        masters.index(at)[position]
                    } else {
                        f32::cast_from(parameters.index(at)[position])
                    };
                    if is_made {
                        let mut gradient = f32::cast_from(gradients[position]) * factor;
                        if comptime!(code.is_scaled) {
                            gradient *= unscale;
                        }
                        if comptime!(code.is_clipped) {
                            gradient *= clipping;
                        }
                        if comptime!(code.decays && !code.is_decoupled) {
                            gradient = weight * decay + gradient;
                        }
                        let draw = mixed(position as u32 ^ key);
                        let mut delta = gradient;
                        if comptime!(code.is_adam) {
                            let mut first = gradient * added_1;
                            let mut second = gradient * gradient * added_2;
                            let mut largest = second;
                            if !is_first {
                                let before_1 = if comptime!(code.has_words) {
                                    unpacked(first_words.index(at)[turn], side)
                                } else {
                                    first_moments.index(at)[position]
                                };
                                let before_2 = if comptime!(code.has_words) {
                                    unpacked(second_words.index(at)[turn], side)
                                } else {
                                    second_moments.index(at)[position]
                                };
                                first = before_1 * kept_1 + first;
                                second = before_2 * kept_2 + second;
                                largest = second;
                                if comptime!(code.amsgrad) {
                                    let before_3 = if comptime!(code.has_words) {
                                        unpacked(largest_words.index(at)[turn], side)
                                    } else {
                                        largest_moments.index(at)[position]
                                    };
                                    largest = select(before_3 < second, second, before_3);
                                }
                            }
                            if comptime!(code.has_words) {
                                let random_1 = draw & 0xffffu32;
                                let random_2 = draw >> 16u32;
                                first_word |= packed(drawn(first, random_1), side);
                                second_word |= packed(drawn(second, random_2), side);
                                largest_word |= packed(drawn(largest, random_2), side);
                            } else {
                                first_moments.index_mut(at)[position] = first;
                                second_moments.index_mut(at)[position] = second;
                                if comptime!(code.amsgrad) {
                                    largest_moments.index_mut(at)[position] = largest;
                                }
                            }
                            if comptime!(code.is_decoupled) {
                                let root = f32::sqrt(largest / correction_2) + epsilon;
                                delta = first / correction_1 / root;
                                if comptime!(code.is_cautious) {
                                    let agree = (weight >= 0.0) == (first >= 0.0);
                                    weight -= select(agree, weight * decay, f32::new(0.0));
                                } else if comptime!(code.decays) {
                                    weight *= decay;
                                }
                            } else {
                                let root = f32::sqrt(largest) + correction_2;
                                delta = first * correction_1 / root;
                            }
                        }
                        if comptime!(code.has_momentum) {
                            let mut velocity = gradient;
                            if !is_first {
                                let before = if comptime!(code.has_words) {
                                    unpacked(first_words.index(at)[turn], side)
                                } else {
                                    first_moments.index(at)[position]
                                };
                                velocity = gradient * added_1 + before * kept_1;
                            }
                            if comptime!(code.has_words) {
                                first_word |= packed(drawn(velocity, draw & 0xffffu32), side);
                            } else {
                                first_moments.index_mut(at)[position] = velocity;
                            }
                            delta = velocity;
                            if comptime!(code.nesterov) {
                                delta = velocity * kept_1 + gradient;
                            }
                        }
                        weight -= delta * lr;
                        if comptime!(code.draws_parameter) {
                            let random = mixed(draw) & 0xffffu32;
                            weight = f32::from_bits(drawn(weight, random));
                        }
                        parameters.index_mut(at)[position] = P::cast_from(weight);
                        if comptime!(code.has_master) {
                            masters.index_mut(at)[position] = weight;
                        }
                    }
                    if comptime!(code.has_low) {
                        lows.index_mut(at)[position] = L::cast_from(weight);
                    }
                }
            }
            if comptime!(code.has_words) {
                if is_made {
                    first_words.index_mut(at)[turn] = first_word;
                    if comptime!(code.is_adam) {
                        second_words.index_mut(at)[turn] = second_word;
                    }
                    if comptime!(code.amsgrad) {
                        largest_words.index_mut(at)[turn] = largest_word;
                    }
                }
            }
            turn += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
}

/// The numbers of a rule that all parameters share, in the order of the kernel.
struct Numbers {
    kept_1: f32,
    added_1: f32,
    kept_2: f32,
    added_2: f32,
    epsilon: f32,
    decay: f32,
}

impl Numbers {
    fn of_adam(rule: &AdamRule, decay: f32) -> Self {
        Self {
            kept_1: rule.beta_1,
            added_1: 1.0 - rule.beta_1,
            kept_2: rule.beta_2,
            added_2: 1.0 - rule.beta_2,
            epsilon: rule.epsilon,
            decay,
        }
    }

    fn of(rule: &Rule, lr: f64) -> Self {
        match rule {
            Rule::Adam(adam) => Self::of_adam(adam, adam.penalty.unwrap_or(0.0)),
            Rule::AdamW(adam, decay) => {
                let rate = lr * f64::from(decay.rate);
                let decay = if decay.cautious { rate } else { 1.0 - rate };
                Self::of_adam(adam, decay as f32)
            }
            Rule::Sgd(SgdRule { penalty, momentum }) => {
                let momentum = momentum.unwrap_or(SgdMomentum {
                    momentum: 0.0,
                    dampening: 0.0,
                    nesterov: false,
                });
                Self {
                    kept_1: momentum.momentum as f32,
                    added_1: (1.0 - momentum.dampening) as f32,
                    kept_2: 0.0,
                    added_2: 0.0,
                    epsilon: 0.0,
                    decay: penalty.unwrap_or(0.0),
                }
            }
        }
    }
}

impl Code {
    /// The code for a rule; what depends on the tensors is off.
    fn of(rule: &Rule, lr: f64) -> Self {
        let nothing = Self {
            is_adam: false,
            is_decoupled: false,
            decays: false,
            is_cautious: false,
            amsgrad: false,
            has_momentum: false,
            nesterov: false,
            has_master: false,
            has_low: false,
            is_scaled: false,
            may_overflow: false,
            is_clipped: false,
            has_words: false,
            draws_parameter: false,
        };
        match rule {
            Rule::Adam(adam) => Self {
                is_adam: true,
                amsgrad: adam.amsgrad,
                decays: adam.penalty.is_some(),
                ..nothing
            },
            Rule::AdamW(adam, decay) => {
                let decays = lr * f64::from(decay.rate) != 0.0;
                Self {
                    is_adam: true,
                    is_decoupled: true,
                    amsgrad: adam.amsgrad,
                    decays,
                    is_cautious: decays && decay.cautious,
                    ..nothing
                }
            }
            Rule::Sgd(sgd) => Self {
                decays: sgd.penalty.is_some(),
                has_momentum: sgd.momentum.is_some(),
                nesterov: sgd.momentum.is_some_and(|momentum| momentum.nesterov),
                ..nothing
            },
        }
    }

    /// The buffers that the kernel binds per parameter.
    fn buffers(&self, moments: usize) -> usize {
        2 + moments + usize::from(self.has_master) + usize::from(self.has_low)
    }
}

/// The corrections of one parameter at a step.
fn corrections(rule: &Rule, time: i32) -> [f32; 2] {
    match rule {
        Rule::Adam(adam) => {
            let [first, second] = adam.corrections(time);
            let second = second.sqrt();
            [second / first, adam.epsilon * second]
        }
        Rule::AdamW(adam, _) => adam.corrections(time),
        Rule::Sgd(_) => [1.0, 1.0],
    }
}

/// What a step reads of one parameter, and does not write.
struct Own<R: CubeRuntime> {
    gradient: CubeTensor<R>,
    factor: f32,
    time: i32,
    key: u32,
    draws_parameter: bool,
}

/// What the parameters of one launch have in common.
#[derive(PartialEq)]
struct Alike {
    code: Code,
    gradient: DType,
    parameter: DType,
    low: DType,
}

/// Launches the step, in place where nobody else holds a tensor. No tensor may be F64.
pub(crate) fn optimizer_step<R, B>(step: ListStep<B>) -> Vec<Stepped<B>>
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>, IntTensorPrimitive = CubeTensor<R>>,
{
    let ListStep {
        rule,
        lr,
        scaled_by,
        unless_overflowed,
        clip,
        parameters,
    } = step;
    let common = Code {
        is_scaled: scaled_by.is_some(),
        may_overflow: unless_overflowed.is_some(),
        is_clipped: clip.is_some(),
        ..Code::of(&rule, lr)
    };
    let mut gradients = Vec::with_capacity(parameters.len());
    let mut stepped = Vec::with_capacity(parameters.len());
    for listed in parameters {
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
        let low = low.map(|low| empty_like(&parameter, low.into()));
        gradients.push(Own {
            gradient,
            factor,
            time,
            key,
            draws_parameter: rounds_stochastically
                && master.is_none()
                && parameter.dtype == DType::BF16,
        });
        stepped.push(Stepped::<B> {
            parameter: own(parameter),
            master: master.map(own),
            moments: moments.into_iter().map(own_moment).collect(),
            low,
        });
    }

    let numbers = Numbers::of(&rule, lr);
    let alike = |at: usize| {
        let parameter: &Stepped<B> = &stepped[at];
        let own: &Own<R> = &gradients[at];
        let code = Code {
            has_master: parameter.master.is_some(),
            has_low: parameter.low.is_some(),
            has_words: matches!(parameter.moments.first(), Some(Moment::Bf16(_))),
            draws_parameter: own.draws_parameter,
            ..common
        };
        Alike {
            code,
            gradient: own.gradient.dtype,
            parameter: parameter.parameter.dtype,
            low: parameter.low.as_ref().map_or(DType::F32, |low| low.dtype),
        }
    };
    let filled = (0..stepped.len()).filter(|at| stepped[*at].parameter.meta.num_elements() > 0);
    let mut chunks: Vec<(Alike, Vec<usize>)> = Vec::new();
    for at in filled {
        let alike = alike(at);
        let client = &stepped[at].parameter.client;
        let most = lists::most_tensors(client, alike.code.buffers(rule.moments()), OTHER_BUFFERS);
        match chunks
            .iter_mut()
            .find(|(other, list)| *other == alike && list.len() < most)
        {
            Some((_, list)) => list.push(at),
            None => chunks.push((alike, vec![at])),
        }
    }
    let one = |tensor: &Option<CubeTensor<R>>| {
        let mut sequence = SequenceArg::new();
        if let Some(tensor) = tensor {
            sequence.push(into_contiguous(tensor.clone()).into_array_arg());
        }
        sequence
    };
    for (alike, list) in chunks {
        let client = stepped[list[0]].parameter.client.clone();
        let longest = list
            .iter()
            .map(|at| stepped[*at].parameter.meta.num_elements());
        let (cubes, units) = lists::geometry(&client, longest.max().unwrap_or(0));
        let mut views = SequenceArg::new();
        let mut weights = SequenceArg::new();
        let mut masters = SequenceArg::new();
        let mut lows = SequenceArg::new();
        let mut moments = [(); 3].map(|()| SequenceArg::new());
        let mut words = [(); 3].map(|()| SequenceArg::new());
        let mut keys = SequenceArg::new();
        let mut factors = SequenceArg::new();
        let mut firsts = SequenceArg::new();
        let mut corrections_1 = SequenceArg::new();
        let mut corrections_2 = SequenceArg::new();
        for at in list {
            let Own {
                gradient,
                factor,
                time,
                key,
                ..
            } = &gradients[at];
            let parameter = &stepped[at];
            views.push(gradient.clone().into_linear_view());
            weights.push(parameter.parameter.clone().into_array_arg());
            if let Some(master) = &parameter.master {
                masters.push(master.clone().into_array_arg());
            }
            if let Some(low) = &parameter.low {
                lows.push(low.clone().into_array_arg());
            }
            for (at, moment) in parameter.moments.iter().enumerate() {
                match moment {
                    Moment::Wide(moment) => moments[at].push(moment.clone().into_array_arg()),
                    Moment::Bf16(moment) => words[at].push(moment.clone().into_array_arg()),
                }
            }
            keys.push(*key);
            let [first, second] = corrections(&rule, *time);
            factors.push(*factor);
            firsts.push(u32::from(*time == 1));
            corrections_1.push(first);
            corrections_2.push(second);
        }
        let [first_moments, second_moments, largest_moments] = moments;
        let [first_words, second_words, largest_words] = words;
        optimizer_kernel::launch::<R>(
            &client,
            cubes,
            units,
            views,
            weights,
            masters,
            first_moments,
            second_moments,
            largest_moments,
            first_words,
            second_words,
            largest_words,
            lows,
            factors,
            firsts,
            corrections_1,
            corrections_2,
            keys,
            one(&scaled_by),
            one(&unless_overflowed),
            one(&clip),
            lr as f32,
            numbers.kept_1,
            numbers.added_1,
            numbers.kept_2,
            numbers.added_2,
            numbers.epsilon,
            numbers.decay,
            alike.code,
            storage(alike.gradient),
            storage(alike.parameter),
            storage(alike.low),
        );
    }
    stepped
}

/// The states of the loss scale, the factor of the clipping, and the buffer in which CubeCL passes numbers and shapes.
const OTHER_BUFFERS: usize = 4;

/// Makes an uninitialized contiguous tensor of the same shape.
fn empty_like<R: CubeRuntime>(tensor: &CubeTensor<R>, dtype: DType) -> CubeTensor<R> {
    let (client, device) = (tensor.client.clone(), tensor.device.clone());
    empty_device_contiguous_dtype(client, device, tensor.shape(), dtype)
}

/// Returns the tensor contiguous, and in a buffer that nobody else reads.
fn own<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    let tensor = into_contiguous(tensor);
    if tensor.can_mut() || tensor.meta.num_elements() == 0 {
        tensor
    } else {
        tensor.copy()
    }
}

fn own_moment<R, B>(moment: Moment<B>) -> Moment<B>
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>, IntTensorPrimitive = CubeTensor<R>>,
{
    match moment {
        Moment::Wide(tensor) => Moment::Wide(own(tensor)),
        Moment::Bf16(words) => Moment::Bf16(own(words)),
    }
}
