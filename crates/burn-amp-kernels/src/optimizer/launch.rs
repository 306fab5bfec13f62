//! The launches of the step: parameters whose code is the same share one, and tensors are updated in place where nobody
//! else holds them.

use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
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
use crate::cube::{
    lists,
    names::OwnedBuffer,
    plan::{empty_on_device_of, storage},
};

/// A parameter whose tensors the step may write, and its copy in low precision.
type Owned<R> = (Listed<CubeTensor<R>>, Option<CubeTensor<R>>);

/// What the parameters of one launch have in common.
#[derive(Clone, PartialEq)]
struct Alike {
    code: Code,
    gradient: DType,
    parameter: DType,
    low: DType,
}

/// Launches the step, in place where nobody else holds a tensor. No tensor may be F64.
pub(super) fn optimizer_step<R: CubeRuntime>(
    step: ListStep<CubeTensor<R>>,
) -> Vec<Stepped<CubeTensor<R>>> {
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
    let parameters: Vec<Owned<R>> = parameters.into_iter().map(owned).collect();
    let states = || StatesLaunch::new(one(&scaled_by), one(&unless_overflowed), one(&clip));
    for (alike, list) in launches(common, &parameters) {
        let list = list.into_iter().map(|at| &parameters[at]);
        let client = parameters[0].0.parameter.client.clone();
        let lengths = list
            .clone()
            .map(|(listed, _)| listed.parameter.meta.num_elements());
        let longest = lengths.max().unwrap_or(0);
        let mut gradients = SequenceArg::new();
        let mut stored = SequenceArg::new();
        for (listed, low) in list {
            gradients.push(listed.gradient.clone().into_linear_view());
            stored.push(stored_arg(&rule, listed, low));
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
    let stepped = parameters.into_iter().map(|(listed, low)| Stepped {
        parameter: listed.parameter,
        master: listed.master,
        moments: listed.moments,
        low,
    });
    stepped.collect()
}

/// Passes a tensor to a kernel, if there is one.
fn one<R: CubeRuntime, E: CubePrimitive>(
    tensor: &Option<CubeTensor<R>>,
) -> SequenceArg<R, OwnedBuffer<E>> {
    let tensor = tensor.clone().map(into_contiguous);
    tensor.into_iter().map(CubeTensor::into_array_arg).collect()
}

/// Passes a parameter to a kernel.
fn stored_arg<R: CubeRuntime, P: Numeric, L: Numeric>(
    rule: &Rule,
    listed: &Listed<CubeTensor<R>>,
    low: &Option<CubeTensor<R>>,
) -> StoredLaunch<P, L, R> {
    let mut master = SequenceArg::new();
    let (mut offset_16, mut offset_8) = (SequenceArg::new(), SequenceArg::new());
    match &listed.master {
        Master::Parameter => {}
        Master::F32(tensor) => master.push(tensor.clone().into_array_arg()),
        Master::Offset(tensor) if tensor.dtype == DType::I8 => {
            offset_8.push(tensor.clone().into_array_arg());
        }
        Master::Offset(tensor) => offset_16.push(tensor.clone().into_array_arg()),
    }
    let (mut moments, mut words) = (SequenceArg::new(), SequenceArg::new());
    for moment in &listed.moments {
        match moment {
            Moment::Wide(moment) => moments.push(moment.clone().into_array_arg()),
            Moment::Bf16(moment) | Moment::Bits8(moment) => {
                words.push(moment.clone().into_array_arg());
            }
        }
    }
    let [first, second] = corrections(rule, listed.time);
    let is_first = u32::from(listed.time == 1);
    StoredLaunch::new(
        OwnLaunch::new(listed.factor, is_first, first, second, listed.key),
        listed.parameter.clone().into_array_arg(),
        master,
        offset_16,
        offset_8,
        one(low),
        moments,
        words,
    )
}

/// Makes what a step writes of a parameter writable, and room for its copy.
fn owned<R: CubeRuntime>(listed: Listed<CubeTensor<R>>) -> Owned<R> {
    let low = listed
        .low
        .map(|low| empty_on_device_of(&listed.parameter, listed.parameter.shape(), low.into()));
    let moments = listed.moments.into_iter();
    let listed = Listed {
        parameter: own(listed.parameter),
        master: listed.master.map(own, own),
        moments: moments.map(|moment| moment.map(own, own)).collect(),
        ..listed
    };
    (listed, low)
}

/// Sorts the parameters that have elements into launches.
fn launches<R: CubeRuntime>(common: Code, parameters: &[Owned<R>]) -> Vec<(Alike, Vec<usize>)> {
    let mut classes: Vec<(Alike, Vec<usize>)> = Vec::new();
    for (at, (listed, low)) in parameters.iter().enumerate() {
        let dtype = listed.parameter.dtype;
        if listed.parameter.meta.num_elements() == 0 {
            continue;
        }
        let first = listed.moments.first();
        let (offset_bits, drops_bits) = match &listed.master {
            Master::Parameter => (0, dtype == DType::BF16),
            Master::F32(_) => (0, false),
            Master::Offset(offset) if offset.dtype == DType::I8 => (8, true),
            Master::Offset(_) => (16, false),
        };
        let code = Code {
            has_master: matches!(listed.master, Master::F32(_)),
            offset_bits,
            has_low: low.is_some(),
            moments: first.map_or(MomentFormat::Wide, Moment::format),
            draws_weight: listed.rounds_stochastically && drops_bits,
            ..common
        };
        let alike = Alike {
            code,
            gradient: listed.gradient.dtype,
            parameter: dtype,
            low: low.as_ref().map_or(DType::F32, |low| low.dtype),
        };
        match classes.iter_mut().find(|(other, _)| *other == alike) {
            Some((_, list)) => list.push(at),
            None => classes.push((alike, vec![at])),
        }
    }
    let client = &parameters[0].0.parameter.client;
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

/// Returns the tensor contiguous, and in a buffer that nobody else reads.
fn own<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    let tensor = into_contiguous(tensor);
    if tensor.can_mut() || tensor.meta.num_elements() == 0 {
        tensor
    } else {
        tensor.copy()
    }
}
