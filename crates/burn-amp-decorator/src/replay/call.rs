//! A call in a file: its arguments, for the op to be run again.

use std::{borrow::Cow, collections::HashMap};

use burn_amp_core::{
    Op, Precision,
    replay::{Argument, Call, Data, Dtype, Step, Use},
};
use burn_amp_kernels::names::dtype_of;
use burn_backend::{DType, TensorData, get_device_settings, tensor::Device};

use crate::{
    cast::{plain::Plain, signature::Given},
    distributed::Trainable,
    graph::Tape,
    precision,
    tensor::AmpTensor,
};

/// The tensors of a step by their numbers.
pub(super) type Tensors<B> = HashMap<u64, AmpTensor<B, Tape>>;

/// The arguments of a call; `None` if the file has not what they refer to. If all tensors are in one dtype, that is the
/// dtype of a cast.
pub(super) fn arguments<B: Trainable>(
    call: &Call,
    step: &Step,
    device: &Device<B>,
    all_in: Option<Precision>,
    tensors: &mut Tensors<B>,
) -> Option<Vec<Given<'static, B, Tape>>> {
    let mut used = |operand| used(operand, tensors);
    let given = call.arguments.iter().map(|argument| {
        Some(match argument {
            Argument::Float(operand) => Given::Float(Cow::Owned(used(operand)?)),
            Argument::Floats(operands) => {
                Given::Floats(operands.iter().map(&mut used).collect::<Option<_>>()?)
            }
            Argument::Data(at) => {
                let data = step.data.get(*at)?;
                let (settings, values) = (get_device_settings::<B>(device), to_burn(data));
                match data.dtype {
                    Dtype::Bool => {
                        let stored = settings.bool_dtype.into();
                        Given::Bool(B::bool_from_data(values.convert_dtype(stored), device))
                    }
                    _ if B::supports_dtype(device, dtype_of(&values)) => {
                        Given::Int(B::int_from_data(values, device))
                    }
                    _ => {
                        let stored = settings.int_dtype.into();
                        Given::Int(B::int_from_data(values.convert_dtype(stored), device))
                    }
                }
            }
            Argument::Absent => Given::Absent,
            Argument::Plain(json) => Given::Plain(json.clone()),
        })
    });
    let mut given: Vec<_> = given.collect::<Option<_>>()?;
    if let Some(dtype) = all_in.filter(|_| call.op == Op::float_cast.name()) {
        given.pop();
        given.push(Given::Plain(precision::to_float(dtype).write()));
    }
    Some(given)
}

/// A tensor is moved into the last call that used it, and cloned for others, as the program did: a graph may keep less of
/// one that nobody else will read.
fn used<B: Trainable>(operand: &Use, tensors: &mut Tensors<B>) -> Option<AmpTensor<B, Tape>> {
    match operand.is_shared {
        Some(false) => tensors.remove(&operand.id),
        Some(true) | None => tensors.get(&operand.id).cloned(),
    }
}

/// The values of a tensor as Burn has them.
pub(super) fn to_burn(data: &Data) -> TensorData {
    let dtype = match data.dtype {
        Dtype::Bool => DType::Bool(burn_backend::BoolStore::Native),
        dtype => {
            precision::OF_FILES
                .iter()
                .find(|(of_file, _)| *of_file == dtype)
                .expect("all dtypes but `Bool` are listed")
                .1
        }
    };
    TensorData::from_bytes_vec(data.bytes.clone(), data.shape.clone(), dtype)
}
