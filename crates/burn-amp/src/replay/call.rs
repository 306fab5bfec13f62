//! One call that is run again: a method per row of the table, as the decorator has, which reads its arguments from the file.

use std::{collections::HashMap, marker::PhantomData};

use burn_amp_core::{
    Op, Precision, activation_ops, float_tensor_ops, module_ops,
    replay::{Argument, Data, Dtype, Use},
};
use burn_backend::{
    DType, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
    ops::{
        ActivationOps, AttentionModuleOptions, ConvOptions, ConvTransposeOptions,
        DeformConvOptions, FloatTensorOps, GridSampleOptions, InterpolateOptions, ModuleOps,
        UnfoldOptions,
    },
    tensor::{BoolTensor, Device, IndexingUpdateOp, IntTensor},
};

use super::run::Apart;
use crate::{
    backend::Amp, cast::plain::Plain, distributed::Trainable, graph::Tape, precision,
    tensor::AmpTensor,
};

/// The tensors of a step by their numbers.
pub(super) type Tensors<B> = HashMap<u64, AmpTensor<B, Tape>>;

/// The arguments of a call, read one by one.
pub(super) struct Arguments<'a, B: Trainable> {
    pub(super) rest: std::slice::Iter<'a, Argument>,
    pub(super) data: &'a [Data],
    pub(super) tensors: &'a mut Tensors<B>,
    pub(super) device: &'a Device<B>,
    /// The dtype in which every tensor is; `None` for those that were recorded.
    pub(super) all_in: Option<Precision>,
}

/// Runs a call and returns its float results; `None` if the arguments are not those of the op.
pub(super) type Run<B> = fn(&mut Arguments<B>) -> Option<Vec<AmpTensor<B, Tape>>>;

impl<B: Trainable> Arguments<'_, B> {
    fn float(&mut self) -> Option<AmpTensor<B, Tape>> {
        match self.rest.next()? {
            Argument::Float(operand) => self.used(*operand),
            _ => None,
        }
    }

    fn optional(&mut self) -> Option<Option<AmpTensor<B, Tape>>> {
        match self.rest.as_slice().first()? {
            Argument::Absent => {
                self.rest.next();
                Some(None)
            }
            _ => self.float().map(Some),
        }
    }

    fn floats(&mut self) -> Option<Vec<AmpTensor<B, Tape>>> {
        match self.rest.next()? {
            Argument::Floats(operands) => {
                operands.iter().map(|operand| self.used(*operand)).collect()
            }
            _ => None,
        }
    }

    /// A tensor is moved into the last call that used it, and cloned for others, as the program did: a graph may keep
    /// less of one that nobody else will read.
    fn used(&mut self, Use { id, is_shared }: Use) -> Option<AmpTensor<B, Tape>> {
        match is_shared {
            Some(false) => self.tensors.remove(&id),
            Some(true) | None => self.tensors.get(&id).cloned(),
        }
    }

    fn data(&mut self) -> Option<TensorData> {
        match self.rest.next()? {
            Argument::Data(at) => self.data.get(*at).map(to_burn),
            _ => None,
        }
    }

    fn int(&mut self) -> Option<IntTensor<B>> {
        Some(B::int_from_data(self.data()?, self.device))
    }

    fn bool(&mut self) -> Option<BoolTensor<B>> {
        Some(B::bool_from_data(self.data()?, self.device))
    }

    fn optional_bool(&mut self) -> Option<Option<BoolTensor<B>>> {
        match self.rest.as_slice().first()? {
            Argument::Absent => {
                self.rest.next();
                Some(None)
            }
            _ => self.bool().map(Some),
        }
    }

    fn plain<T: Plain>(&mut self) -> Option<T> {
        match self.rest.next()? {
            Argument::Plain(json) => T::read(json.clone()),
            _ => None,
        }
    }

    /// An argument that no file has.
    fn never<T>(&self) -> Option<T> {
        None
    }

    fn dtype(&mut self) -> Option<FloatDType> {
        let recorded = self.plain::<FloatDType>()?;
        Some(self.all_in.map_or(recorded, precision::to_float))
    }
}

/// The values of a tensor as Burn has them.
pub(super) fn to_burn(data: &Data) -> TensorData {
    let dtype = match data.dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        Dtype::Bool => DType::Bool(burn_backend::BoolStore::Native),
    };
    TensorData::from_bytes_vec(data.bytes.clone(), data.shape.clone(), dtype)
}

/// A method per op: an `impl` of its own, because the ops' names are those of Burn's traits.
struct Again<B>(PhantomData<B>);

/// Writes the method of one row, if its results are float.
///
/// A macro for the same reason as [`forward!`](crate::cast::forward).
macro_rules! again {
    ($op:ident [] $operands:tt -> $ret:ty as [F] $($by:ident $hand:ident)?) => {
        again! { @ [F] $op $operands }
    };
    ($op:ident [] $operands:tt -> $ret:ty as [Wide]) => { again! { @ [F] $op $operands } };
    ($op:ident [] $operands:tt -> $ret:ty as [(F, F)]) => { again! { @ [(F, F)] $op $operands } };
    ($op:ident [] $operands:tt -> $ret:ty as [(F, I)]) => { again! { @ [(F, I)] $op $operands } };
    ($op:ident [] $operands:tt -> $ret:ty as [DeformConv2dBackward]) => {
        again! { @ [Deformed] $op $operands }
    };
    ($op:ident [] $operands:tt -> $ret:ty as [MaxPool1dBackward]) => {
        again! { @ [Gradient] $op $operands }
    };
    ($op:ident [] $operands:tt -> $ret:ty as [MaxPool2dBackward]) => {
        again! { @ [Gradient] $op $operands }
    };
    ($op:ident [] $operands:tt -> $ret:ty as [MaxPool1dWithIndices]) => {
        again! { @ [Indexed] $op $operands }
    };
    ($op:ident [] $operands:tt -> $ret:ty as [MaxPool2dWithIndices]) => {
        again! { @ [Indexed] $op $operands }
    };
    (@ $result:tt $op:ident ($($x:ident: $type:ty as $kind:tt,)*)) => {
        fn $op(arguments: &mut Arguments<B>) -> Option<Vec<AmpTensor<B, Tape>>> {
            $(let $x = read!($kind, arguments, $type);)*
            let result = Amp::<B, Apart, Tape>::$op($($x),*);
            Some(results!($result, result))
        }
    };
    // The results of other ops enter the calls that read them as values.
    ($op:ident [$($async:tt)*] $operands:tt -> $ret:ty as $result:tt $($by:ident $hand:ident)?) => {};
}

/// Reads an argument. A macro, because the kinds are words of the table.
macro_rules! read {
    ([F], $arguments:ident, $type:ty) => {
        $arguments.float()?
    };
    ([Option<F>], $arguments:ident, $type:ty) => {
        $arguments.optional()?
    };
    ([Vec<F>], $arguments:ident, $type:ty) => {
        $arguments.floats()?
    };
    ([I], $arguments:ident, $type:ty) => {
        $arguments.int()?
    };
    ([Bool], $arguments:ident, $type:ty) => {
        $arguments.bool()?
    };
    ([Option<Bool>], $arguments:ident, $type:ty) => {
        $arguments.optional_bool()?
    };
    ([FloatDType], $arguments:ident, $type:ty) => {
        $arguments.dtype()?
    };
    ([&Device], $arguments:ident, $type:ty) => {
        $arguments.device
    };
    ([&[usize]], $arguments:ident, $type:ty) => {
        &$arguments.plain::<Vec<usize>>()?
    };
    ([&[Slice]], $arguments:ident, $type:ty) => {
        &$arguments.plain::<Vec<Slice>>()?
    };
    // Only ops without a float operand have these.
    ([TensorData], $arguments:ident, $type:ty) => {
        $arguments.never()?
    };
    ([Distribution], $arguments:ident, $type:ty) => {
        $arguments.never()?
    };
    ($kind:tt, $arguments:ident, $type:ty) => {
        $arguments.plain::<$type>()?
    };
}

/// The float results of a call. A macro, because the kinds are words of the table.
macro_rules! results {
    ([F], $result:ident) => {
        vec![$result]
    };
    ([(F, F)], $result:ident) => {
        vec![$result.0, $result.1]
    };
    ([(F, I)], $result:ident) => {
        vec![$result.0]
    };
    ([Gradient], $result:ident) => {
        vec![$result.x_grad]
    };
    ([Indexed], $result:ident) => {
        vec![$result.output]
    };
    ([Deformed], $result:ident) => {{
        let mut results = vec![$result.x_grad, $result.offset_grad, $result.weight_grad];
        results.extend($result.mask_grad);
        results.extend($result.bias_grad);
        results
    }};
}

impl<B: Trainable> Again<B> {
    float_tensor_ops! { again! }
    module_ops! { again! }
    activation_ops! { again! }
}

/// Finds the method of an op among the rows of a trait.
///
/// A macro for the same reason as [`again!`].
macro_rules! found {
    ($Ops:ident {
        $(
            $f16:ident $(/ $bf16:ident)? $op:ident $($async:ident)? ($($operands:tt)*)
            -> $ret:tt $(<$($of:ident),+>)? $(by $how:ident $why:literal)?;
        )*
    } $wanted:ident $Backend:ident) => {
        match $wanted {
            $(Op::$op => method!($ret $op $Backend),)*
            _ => None,
        }
    };
}

/// The method of an op whose results are float.
///
/// A macro for the same reason as [`again!`].
macro_rules! method {
    (F $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (Wide $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    ((F, F) $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    ((F, I) $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (DeformConv2dBackward $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (MaxPool1dBackward $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (MaxPool2dBackward $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (MaxPool1dWithIndices $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    (MaxPool2dWithIndices $op:ident $B:ident) => {
        Some(Again::<$B>::$op as Run<$B>)
    };
    ($ret:tt $op:ident $B:ident) => {
        None
    };
}

/// A move to another device stays on the one device that there is.
fn stay<B: Trainable>(arguments: &mut Arguments<B>) -> Option<Vec<AmpTensor<B, Tape>>> {
    Some(vec![arguments.float()?])
}

/// Returns the method that runs an op again; `None` if the op is not recorded.
pub(super) fn of<B: Trainable>(op: Op) -> Option<Run<B>> {
    if op == Op::float_to_device {
        return Some(stay::<B>);
    }
    let method = float_tensor_ops! { raw found! op B };
    let method = method.or(module_ops! { raw found! op B });
    method.or(activation_ops! { raw found! op B })
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;

    #[test]
    fn every_op_with_a_float_result_is_run_again_but_for_quantized_ones() {
        for op in Op::ALL {
            let shape = op.shape().replace(' ', "");
            let (_, result) = shape.rsplit_once("->").expect("a shape has a result");
            let is_float = matches!(result, "F" | "Wide" | "(F,F)" | "(F,I)")
                || result.starts_with("MaxPool")
                || result.starts_with("DeformConv");
            // Ops on integers and bools have no float operand, and their results enter as values.
            let is_of = ["FloatTensorOps", "ModuleOps", "ActivationOps"];
            let is_expected = is_float && is_of.contains(&op.trait_name());
            let method = of::<burn::backend::Flex>(*op);
            assert_eq!(method.is_some(), is_expected, "{op}");
        }
    }
}
