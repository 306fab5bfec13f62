//! The ops as functions of data: one for each row of the table with float results.

use std::marker::PhantomData;

use burn_amp_core::{Op, activation_ops, float_tensor_ops, module_ops};
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    FloatDType, IntDType, Scalar, Shape, Slice,
    ops::{
        ActivationOps, AttentionModuleOptions, ConvOptions, ConvTransposeOptions,
        DeformConvOptions, FloatTensorOps, GridSampleOptions, InterpolateOptions, ModuleOps,
        UnfoldOptions,
    },
    tensor::IndexingUpdateOp,
};

use super::{
    plain::Plain,
    signature::{Given, Run, floats, if_float, taken},
};
use crate::{backend::Amp, graph::Graph, policy::ConfigSource};

/// The function of each op, under the op's name; `None` for an op without float results.
pub(crate) struct Again<B, P, G>(PhantomData<(B, P, G)>);

/// Writes the function of one row. A macro, because a function cannot be generic over signatures.
macro_rules! again {
    (
        $op:ident [$($async:tt)*] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $how:ident)?
    ) => {
        pub(crate) const $op: Option<Run<B, G>> = if_float!($result {
            Some(|given| {
                let mut given = given.into_iter();
                $(let $x = taken!($kind given.next()?, $type);)*
                let mut result = Amp::<B, P, G>::$op($($x),*);
                let results: Vec<_> = floats!($result result);
                Some(results.into_iter().map(|result| result.clone()).collect())
            })
        } { None });
    };
}

#[allow(
    non_upper_case_globals,
    reason = "the names are those of Burn's methods"
)]
impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> Again<B, P, G> {
    float_tensor_ops! { again! }
    module_ops! { again! }
    activation_ops! { again! }
}

/// The arguments of a call in a program: expressions of tensors, and values that are no tensors.
pub(crate) enum Written {
    Tensor(String),
    Absent,
    Plain(serde_json::Value),
}

/// Writes the arguments of an op as a program has them; `None` if they are not those of the op.
pub(crate) type Code = fn(Vec<Written>) -> Option<Vec<String>>;

/// The arguments of each op in a program, under the op's name.
struct Codes;

/// Writes the function of one row. A macro for the same reason as [`again!`].
macro_rules! code {
    (
        $op:ident [$($async:tt)*] ($($x:ident: $type:ty as $kind:tt,)*)
        -> $ret:ty as $result:tt $(by $how:ident)?
    ) => {
        const $op: Option<Code> = if_float!($result {
            Some(|given| {
                let mut given = given.into_iter();
                Some(vec![$(coded!($kind given.next()?, $type)),*])
            })
        } { None });
    };
}

/// Writes an argument. A macro, because the kind of an operand is a word of the table.
macro_rules! coded {
    (@tensor $given:expr) => {
        match $given {
            Written::Tensor(name) => name,
            Written::Absent | Written::Plain(_) => return None,
        }
    };
    (@optional $given:expr) => {
        match $given {
            Written::Tensor(name) => format!("Some({name})"),
            Written::Absent => "None".into(),
            Written::Plain(_) => return None,
        }
    };
    ([F] $given:expr, $type:ty) => { coded!(@tensor $given) };
    ([Option<F>] $given:expr, $type:ty) => { coded!(@optional $given) };
    ([Vec<F>] $given:expr, $type:ty) => { coded!(@tensor $given) };
    ([I] $given:expr, $type:ty) => { coded!(@tensor $given) };
    ([Bool] $given:expr, $type:ty) => { coded!(@tensor $given) };
    ([Option<Bool>] $given:expr, $type:ty) => { coded!(@optional $given) };
    ([&Device] $given:expr, $type:ty) => {{ let _ = $given; return None }};
    ([TensorData] $given:expr, $type:ty) => {{ let _ = $given; return None }};
    ([Distribution] $given:expr, $type:ty) => {{ let _ = $given; return None }};
    ([&[$of:ident]] $given:expr, $type:ty) => {
        match $given {
            Written::Plain(json) => format!("&{}", <Vec<$of> as Plain>::read(json)?.code()),
            Written::Tensor(_) | Written::Absent => return None,
        }
    };
    ($kind:tt $given:expr, $type:ty) => {
        match $given {
            Written::Plain(json) => <$type as Plain>::read(json)?.code(),
            Written::Tensor(_) | Written::Absent => return None,
        }
    };
}

#[allow(
    non_upper_case_globals,
    unreachable_code,
    unused_variables,
    reason = "the names are those of Burn's methods; an op that no program can call returns at once"
)]
impl Codes {
    float_tensor_ops! { code! }
    module_ops! { code! }
    activation_ops! { code! }
}

/// Finds the function of an op among the rows of a trait. A macro, because constants cannot be looked up by their names.
macro_rules! found {
    (@ [$($Found:tt)+] $op:ident) => { $($Found)+::$op };
    ($Ops:ident {
        $(
            $(#[$release:meta])?
            $f16:ident $(/ $bf16:ident)? $op:ident $($async:ident)? ($($operands:tt)*)
            -> $ret:tt $(<$($of:ident),+>)? $(by $how:ident $why:literal)?;
        )*
    } $wanted:ident $of_op:tt) => {
        match $wanted {
            $($(#[$release])? Op::$op => found!(@ $of_op $op),)*
            _ => None,
        }
    };
}

/// Returns the function of an op; `None` if it has no float results or no float operand.
pub(crate) fn of<B: AmpBackend, P: ConfigSource, G: Graph<B>>(op: Op) -> Option<Run<B, G>> {
    let run = float_tensor_ops! { raw found! op [Again::<B, P, G>] };
    let run = run.or(module_ops! { raw found! op [Again::<B, P, G>] });
    run.or(activation_ops! { raw found! op [Again::<B, P, G>] })
}

/// Returns what writes the arguments of an op in a program; `None` if it has no float results.
pub(crate) fn code_of(op: Op) -> Option<Code> {
    let code = float_tensor_ops! { raw found! op [Codes] };
    let code = code.or(module_ops! { raw found! op [Codes] });
    code.or(activation_ops! { raw found! op [Codes] })
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;
    use crate::{graph::Tape, policy::FromFile};

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
            let run = of::<Flex, FromFile, Tape>(*op);
            assert_eq!(run.is_some(), is_expected, "{op}");
        }
    }
}
