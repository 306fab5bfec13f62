//! A call that somebody sees as its caller does: the arguments before the op computes, the results after.
//!
//! What happens in between, from the look at the operands to the casts, is seen by the [`watch`](super::watch) of each
//! [`Call`](super::call::Call).

use burn_amp_core::Op;
use burn_amp_kernels::AmpBackend;

use super::{
    record::Taken,
    shadow::{self, Shadow},
    signature::{Given, Run},
};
use crate::{
    graph::{Graph, NoGraph},
    tensor::AmpTensor,
};

/// A call that is compared or recorded.
pub(crate) struct Invocation<B: AmpBackend> {
    shadow: Option<Shadow<B>>,
    taken: Option<Taken<B>>,
}

impl<B: AmpBackend> Invocation<B> {
    /// Shows the arguments of a call to those who want to see it. `again` runs the op for a comparison.
    #[cold]
    #[inline(never)]
    pub(crate) fn begin<'a, G: Graph<B>>(
        op: Op,
        again: Option<Run<B, NoGraph>>,
        given: impl FnOnce() -> Vec<Given<'a, B, G>>,
    ) -> Option<Box<Self>> {
        if shadow::is_reference() || !G::RECORDS && !shadow::is_on() {
            return None;
        }
        let given = given();
        let shadow = again.and_then(|again| Shadow::of(op, again, &given));
        let taken = Taken::of(op, &given);
        (shadow.is_some() || taken.is_some()).then(|| Box::new(Self { shadow, taken }))
    }

    /// Shows the float results.
    #[cold]
    #[inline(never)]
    pub(crate) fn end<G: Graph<B>>(self, results: Vec<&mut AmpTensor<B, G>>) {
        let Self { shadow, taken } = self;
        if let (Some(shadow), [result]) = (shadow, &*results) {
            shadow.compare(result);
        }
        if let Some(taken) = taken {
            taken.finish(results);
        }
    }
}

/// Runs a call that may be seen.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! invoked {
    // These have no float operand.
    ([F] int_into_float $operands:tt $body:block) => { $body };
    ([F] bool_into_float $operands:tt $body:block) => { $body };
    ([F] dequantize $operands:tt $body:block) => { $body };
    ($result:tt $op:ident ($($x:ident: $kind:tt),*) $body:block) => {
        $crate::cast::signature::if_float!($result {{
            let invocation = if $crate::watching::is_on() {
                $crate::cast::invocation::Invocation::<B>::begin::<G>(
                    burn_amp_core::Op::$op,
                    $crate::cast::invocation::compared!($result $op),
                    || {
                        #[allow(unused_imports, reason = "not every op has tensors and other arguments")]
                        use {std::borrow::Cow, $crate::cast::{plain::Plain, signature::Given}};
                        vec![$($crate::cast::signature::given!($kind $x)),*]
                    },
                )
            } else {
                None
            };
            let mut result = $body;
            if let Some(invocation) = invocation {
                invocation.end($crate::cast::signature::floats!($result result));
            }
            result
        }} { $body })
    };
}

/// What runs an op again, if its result is compared.
macro_rules! compared {
    ([F] $op:ident) => {
        $crate::cast::again::Again::<B, P, $crate::graph::NoGraph>::$op
    };
    ($result:tt $op:ident) => {
        None
    };
}

pub(crate) use {compared, invoked};
