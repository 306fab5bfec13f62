//! The class that a parameter gives to the calls that read it, by `[parameters]`.

use burn_amp_core::{Class, Op};
use burn_amp_kernels::AmpBackend;

use crate::{graph::Graph, tensor::AmpTensor};

/// The class of the calls that read a tensor: a parameter that a pattern matches, or a view of one.
#[cold]
pub(super) fn class_of_readers<B: AmpBackend, G: Graph<B>>(
    tensor: &AmpTensor<B, G>,
) -> Option<Class> {
    tensor.parameter()?.class(&tensor.context.config.parameters)
}

/// The class of a call that reads two parameters: `full` if one says so, else that of the first.
pub(super) fn joined(first: Option<Class>, second: Option<Class>) -> Option<Class> {
    match (first, second) {
        (_, Some(Class::Full)) => second,
        (None, _) => second,
        (Some(_), _) => first,
    }
}

/// The class of a call of an op of class `of_op` that reads a parameter of class `given`.
///
/// `low` is only for ops of which the policy says more than that they run as they are given: in low precision the sums and
/// products of an optimizer would lose its steps.
pub(super) fn class_of_call(given: Class, of_op: Class) -> Option<Class> {
    match (given, of_op) {
        (Class::Low, Class::Widest | Class::Keep) => None,
        (
            Class::Low | Class::Full | Class::Internal | Class::Widest | Class::Keep,
            Class::Low | Class::Full | Class::Internal | Class::Widest | Class::Keep,
        ) => Some(given),
    }
}

/// Whether the result of an op has the values of its operand, at other places.
pub(crate) fn is_view(op: Op) -> bool {
    matches!(
        op,
        Op::float_transpose
            | Op::float_swap_dims
            | Op::float_permute
            | Op::float_reshape
            | Op::float_expand
            | Op::float_unfold
            | Op::float_slice
            | Op::float_select
            | Op::float_flip
    )
}
