//! The launches of the step: parameters whose code is the same share one, and tensors are updated in place where nobody
//! else holds them.

use burn_backend::{Backend, DType, TensorMetadata};
use burn_cubecl::{
    CubeRuntime, kernel::into_contiguous, ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};
use cubecl::prelude::*;

use super::{
    ListStep, Listed, Master, Moment, MomentFormat, Rule, Stepped,
    block_code::UNITS,
    blocks::{BLOCK, BLOCK_WORDS},
    code::Code,
    constants::corrections,
    element::{NumbersLaunch, OwnLaunch, StoredLaunch},
    kernel::{StatesLaunch, optimizer_kernel},
};
use crate::cube::{lists, plan::storage};

/// What a step reads of one parameter, and does not write.
struct OwnTensors<R: CubeRuntime> {
    gradient: CubeTensor<R>,
    factor: f32,
    time: i32,
    key: u32,
    draws_parameter: bool,
}

/// What the parameters of one launch have in common.
#[derive(Clone, PartialEq)]
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
    let (owns, stepped): (Vec<OwnTensors<R>>, Vec<Stepped<B>>) =
        parameters.into_iter().map(taken::<R, B>).unzip();
    let states = || StatesLaunch::new(one(&scaled_by), one(&unless_overflowed), one(&clip));
    for (alike, list) in launches(common, &owns, &stepped) {
        let client = stepped[list[0]].parameter.client.clone();
        let lengths = list
            .iter()
            .map(|at| stepped[*at].parameter.meta.num_elements());
        let longest = lengths.max().unwrap_or(0);
        let mut gradients = SequenceArg::new();
        let mut stored = SequenceArg::new();
        for at in list {
            gradients.push(owns[at].gradient.clone().into_linear_view());
            stored.push(stored_arg(&rule, &owns[at], &stepped[at]));
        }
        let (cubes, units) = match alike.code.moments {
            MomentFormat::Wide | MomentFormat::Bf16 => lists::geometry(&client, longest),
            MomentFormat::Bits8 => {
                let words = longest.div_ceil(BLOCK) * BLOCK_WORDS;
                let units = CubeDim::new_1d(UNITS as u32);
                (lists::cubes(&client, words, UNITS), units)
            }
        };
        optimizer_kernel::launch::<R>(
            &client,
            cubes,
            units,
            gradients,
            stored,
            states(),
            NumbersLaunch::of(&rule, lr),
            alike.code,
            [alike.gradient, alike.parameter, alike.low].map(storage),
        );
    }
    stepped
}

/// Passes a tensor to a kernel, if there is one.
fn one<R: CubeRuntime, E: CubePrimitive>(
    tensor: &Option<CubeTensor<R>>,
) -> SequenceArg<R, Array<E>> {
    let tensor = tensor.clone().map(into_contiguous);
    tensor.into_iter().map(CubeTensor::into_array_arg).collect()
}

/// Passes a parameter to a kernel.
fn stored_arg<R, B, P, L>(
    rule: &Rule,
    own: &OwnTensors<R>,
    stepped: &Stepped<B>,
) -> StoredLaunch<P, L, R>
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>, IntTensorPrimitive = CubeTensor<R>>,
    P: Numeric,
    L: Numeric,
{
    let (mut master, mut offset) = (SequenceArg::new(), SequenceArg::new());
    match &stepped.master {
        Some(Master::F32(tensor)) => master.push(tensor.clone().into_array_arg()),
        Some(Master::Offset(tensor)) => offset.push(tensor.clone().into_array_arg()),
        None => {}
    }
    let (mut moments, mut words) = (SequenceArg::new(), SequenceArg::new());
    for moment in &stepped.moments {
        match moment {
            Moment::Wide(moment) => moments.push(moment.clone().into_array_arg()),
            Moment::Bf16(moment) | Moment::Bits8(moment) => {
                words.push(moment.clone().into_array_arg());
            }
        }
    }
    let [first, second] = corrections(rule, own.time);
    let is_first = u32::from(own.time == 1);
    StoredLaunch::new(
        OwnLaunch::new(own.factor, is_first, first, second, own.key),
        stepped.parameter.clone().into_array_arg(),
        master,
        offset,
        one(&stepped.low),
        moments,
        words,
    )
}

/// Takes a parameter apart, into what the step reads and what it writes.
fn taken<R, B>(listed: Listed<B>) -> (OwnTensors<R>, Stepped<B>)
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>, IntTensorPrimitive = CubeTensor<R>>,
{
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
    let read = OwnTensors {
        gradient,
        factor,
        time,
        key,
        draws_parameter: rounds_stochastically
            && master.is_none()
            && parameter.dtype == DType::BF16,
    };
    let written = Stepped {
        low: low.map(|low| empty_like(&parameter, low.into())),
        parameter: own(parameter),
        master: master.map(|master| match master {
            Master::F32(master) => Master::F32(own(master)),
            Master::Offset(offset) => Master::Offset(own(offset)),
        }),
        moments: moments.into_iter().map(own_moment).collect(),
    };
    (read, written)
}

/// Sorts the parameters that have elements into launches.
fn launches<R, B>(
    common: Code,
    owns: &[OwnTensors<R>],
    stepped: &[Stepped<B>],
) -> Vec<(Alike, Vec<usize>)>
where
    R: CubeRuntime,
    B: Backend<FloatTensorPrimitive = CubeTensor<R>, IntTensorPrimitive = CubeTensor<R>>,
{
    let mut classes: Vec<(Alike, Vec<usize>)> = Vec::new();
    for (at, (own, stepped)) in owns.iter().zip(stepped).enumerate() {
        if stepped.parameter.meta.num_elements() == 0 {
            continue;
        }
        let first = stepped.moments.first();
        let code = Code {
            has_master: matches!(stepped.master, Some(Master::F32(_))),
            has_offset: matches!(stepped.master, Some(Master::Offset(_))),
            has_low: stepped.low.is_some(),
            moments: first.map_or(MomentFormat::Wide, Moment::format),
            draws_parameter: own.draws_parameter,
            ..common
        };
        let alike = Alike {
            code,
            gradient: own.gradient.dtype,
            parameter: stepped.parameter.dtype,
            low: stepped.low.as_ref().map_or(DType::F32, |low| low.dtype),
        };
        match classes.iter_mut().find(|(other, _)| *other == alike) {
            Some((_, list)) => list.push(at),
            None => classes.push((alike, vec![at])),
        }
    }
    let Some((_, first)) = classes.first() else {
        return Vec::new();
    };
    let client = &stepped[first[0]].parameter.client;
    let count = classes.iter().map(|(_, list)| list.len()).sum();
    let bindings = client.properties().hardware.max_bindings as usize;
    let wanted = lists::wanted_tensors(count, classes.len());
    let launches = classes.into_iter().flat_map(|(alike, list)| {
        let buffers = alike.code.buffers();
        let most = lists::most_tensors(bindings, buffers, OTHER_BUFFERS).min(wanted);
        let lists: Vec<_> = list.chunks(most).map(<[usize]>::to_vec).collect();
        lists.into_iter().map(move |list| (alike.clone(), list))
    });
    launches.collect()
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
        Moment::Bits8(words) => Moment::Bits8(own(words)),
    }
}
