//! Calls that are those of the plain backend: under a policy that lowers nothing, on tensors of one dtype that have no
//! recipe and carry no backward pass, while nobody watches.
//!
//! Under `o0` nearly every call is one, so it costs a look at each operand and nothing else. Any other call takes the
//! steps of a [`Call`](super::call::Call).

use burn_amp_core::Precision;
use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::FloatTensor;

use crate::{
    graph::Graph,
    policy::Context,
    tensor::{AmpTensor, Facts},
    watching,
};

/// A call whose float operands, as far as they were looked at, leave it unchanged.
pub(crate) struct Unchanged<B: AmpBackend> {
    context: &'static Context<B>,
    /// The dtype of the operands and of the result.
    dtype: Precision,
    /// Whether an operand is a gradient.
    is_gradient: bool,
}

/// The look at the operands: nothing yet, operands that leave the call unchanged, or one that does not.
pub(crate) enum Look<B: AmpBackend> {
    Begun,
    At(Unchanged<B>),
    Changed,
}

impl<B: AmpBackend> Look<B> {
    /// Looks at a call, unless somebody watches.
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        if watching::is_on() {
            Self::Changed
        } else {
            Self::Begun
        }
    }

    /// Looks at a float operand.
    #[inline(always)]
    pub(crate) fn float<G: Graph<B>>(self, tensor: &AmpTensor<B, G>) -> Self {
        let Some(dtype) = tensor.unchanged_dtype() else {
            return Self::Changed;
        };
        let is_gradient = match tensor.role.gradient() {
            Some(passes) if passes.is_none() => true,
            Some(_) => return Self::Changed,
            None => false,
        };
        match self {
            Self::Begun => Self::At(Unchanged {
                context: tensor.context,
                dtype,
                is_gradient,
            }),
            Self::At(call) if call.dtype == dtype => Self::At(Unchanged {
                is_gradient: call.is_gradient || is_gradient,
                ..call
            }),
            Self::At(_) | Self::Changed => Self::Changed,
        }
    }

    /// The call, if all operands leave it unchanged.
    #[inline(always)]
    pub(crate) fn end(self) -> Option<Unchanged<B>> {
        match self {
            Self::At(call) => Some(call),
            Self::Begun | Self::Changed => None,
        }
    }
}

impl<B: AmpBackend> Unchanged<B> {
    /// Wraps the result.
    #[inline(always)]
    pub(crate) fn result<G: Graph<B>>(self, values: FloatTensor<G::Inner>) -> AmpTensor<B, G> {
        let facts = Facts::plain(self.context, self.dtype, self.is_gradient);
        AmpTensor::with_facts(values, facts)
    }
}

/// Looks at a call, if its op is one of arithmetic. An op without a class chooses the dtype or the role of its result.
///
/// A macro, because a function cannot be generic over signatures.
macro_rules! unchanged {
    ($op:ident ($($kind:tt $x:ident),*)) => {
        if const {
            let op = burn_amp_core::Op::$op;
            op.class(burn_amp_core::Precision::F16).is_some() && !op.is_backward()
        } {
            let look = $crate::cast::unchanged::Look::<B>::begin();
            $(let look = $crate::cast::unchanged::looked!($kind look $x);)*
            look.end()
        } else {
            None
        }
    };
}

/// Looks at an operand, whatever its word in the table is.
macro_rules! looked {
    ([F] $look:ident $x:ident) => {
        $look.float(&$x)
    };
    ([Option<F>] $look:ident $x:ident) => {
        $x.iter().fold($look, |look, x| look.float(x))
    };
    ([Vec<F>] $look:ident $x:ident) => {
        $x.iter().fold($look, |look, x| look.float(x))
    };
    ($kind:tt $look:ident $x:ident) => {
        $look
    };
}

/// An operand as the plain backend takes it.
macro_rules! operand {
    ([F] $x:ident) => {
        $x.unchanged()
    };
    ([Option<F>] $x:ident) => {
        $x.map($crate::tensor::AmpTensor::unchanged)
    };
    ([Vec<F>] $x:ident) => {
        $x.into_iter()
            .map($crate::tensor::AmpTensor::unchanged)
            .collect()
    };
    ($kind:tt $x:ident) => {
        $x
    };
}

pub(crate) use {looked, operand, unchanged};
