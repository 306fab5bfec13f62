//! Writes a step to a file, for `burn-amp replay`.

use std::path::Path;

use burn_amp_core::{
    Precision,
    replay::{self, Data, Dtype, Step},
};
use burn_amp_kernels::AmpBackend;
use burn_amp_kernels::names::{dtype_of, shape_of};
use burn_autodiff::grads::Gradients;
use burn_backend::{TensorData, read_sync};

use crate::{
    cast::record::values_of,
    policy::{Context, KeptTensor, Outside, StepRecording},
    precision,
    warn::{Warning, say},
};

/// Reads the values of a recorded `step`, of which the rest is known, to the host, and writes it to `file`. `grads` is what
/// Burn's backward pass left.
pub(super) fn write<B: AmpBackend>(
    context: &Context<B>,
    file: &Path,
    step: Step,
    recording: StepRecording<B>,
    grads: &Gradients,
) {
    static UNWRITTEN: Warning = Warning::new("a-step-that-cannot-be-written");

    let StepRecording {
        calls,
        outside,
        data,
        ..
    } = recording;
    let outside = outside.into_iter().map(|outside| {
        let Outside {
            id,
            data,
            logical,
            nature,
            is_cut,
            origin,
            handle,
            ..
        } = outside;
        let name = origin.and_then(|origin| origin.name().get().map(str::to_owned));
        replay::Outside {
            id,
            data,
            logical,
            nature,
            parameter: name,
            is_cut,
            gradient: handle
                .and_then(|handle| handle.grad(grads))
                .map(values_of::<B>),
        }
    });
    let mut step = Step {
        outside: outside.collect(),
        calls,
        data: data.into_iter().map(values).collect(),
        ..step
    };
    step.reduce();
    if !context.recorder.writes_values() {
        step.data.clear();
    }
    let what = match step.cause {
        Some(_) => "a step that overflowed",
        None => "a step",
    };
    match step.write(file) {
        Ok(()) => say(&format!(
            "{what} is in {0}; `burn-amp replay {0}` runs it again",
            file.display()
        )),
        Err(error) => {
            UNWRITTEN.give(|| format!("{what} cannot be written to {}: {error}", file.display()))
        }
    }
}

/// Reads a tensor in the dtype in which it is stored.
fn values<B: AmpBackend>(stored: KeptTensor<B>) -> Data {
    let read = |data| {
        let data: Result<TensorData, _> = data;
        data.unwrap_or_else(|error| panic!("cannot read a tensor from the device: {error}"))
    };
    match stored {
        KeptTensor::Float(tensor) => {
            let stored = match precision::of(&tensor) {
                Precision::Flex32 => Precision::F32,
                stored => stored,
            };
            of(precision::read::<B>(tensor).convert_dtype(precision::to_burn(stored)))
        }
        KeptTensor::Int(tensor) => of(read(read_sync(B::int_into_data(tensor)))),
        KeptTensor::Bool(tensor) => {
            let data = read(read_sync(B::bool_into_data(tensor)));
            Data {
                dtype: Dtype::Bool,
                bytes: data.iter::<bool>().map(u8::from).collect(),
                shape: shape_of(&data).as_slice().to_vec(),
            }
        }
    }
}

fn of(data: TensorData) -> Data {
    let listed = precision::OF_FILES
        .iter()
        .find(|(_, dtype)| *dtype == dtype_of(&data));
    let (dtype, _) =
        listed.unwrap_or_else(|| unreachable!("no tensor of a step has {:?}", dtype_of(&data)));
    Data {
        dtype: *dtype,
        shape: shape_of(&data).as_slice().to_vec(),
        bytes: data.as_bytes().to_vec(),
    }
}
