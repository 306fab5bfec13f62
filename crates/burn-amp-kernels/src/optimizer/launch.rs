//! The launches of the step: parameters whose code is the same share one, and tensors are updated in place where nobody
//! else holds them.

use burn_backend::{Backend, DType, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::{
    ListStep, Listed, Moment, Stepped,
    constants::{Numbers, corrections},
    kernel::{Code, optimizer_kernel},
};
use crate::cube::{lists, plan::storage};

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
