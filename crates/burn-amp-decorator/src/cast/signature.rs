//! The arguments and the float results of a call, whatever the signature of its op.
//!
//! Each macro has an arm per word of the table, because the words are not types with a common trait.

use std::{borrow::Cow, slice};

use burn_amp_kernels::AmpBackend;
use burn_backend::tensor::{BoolTensor, IntTensor};
use serde_json::Value;

use crate::{graph::Graph, tensor::AmpTensor};

/// An argument of a call.
pub(crate) enum Given<'a, B: AmpBackend, G: Graph<B>> {
    /// A float tensor.
    Float(Cow<'a, AmpTensor<B, G>>),
    /// Float tensors.
    Floats(Cow<'a, [AmpTensor<B, G>]>),
    /// An integer tensor.
    Int(IntTensor<B>),
    /// A bool tensor.
    Bool(BoolTensor<B>),
    /// A tensor that the op can do without.
    Absent,
    /// A number, a shape, options.
    Plain(Value),
    /// The device to which a tensor moves, and what only ops without a float operand have.
    Other,
}

impl<B: AmpBackend, G: Graph<B>> Given<'_, B, G> {
    /// The float tensors in it.
    pub(crate) fn tensors(&self) -> &[AmpTensor<B, G>] {
        match self {
            Self::Float(tensor) => slice::from_ref(tensor),
            Self::Floats(tensors) => tensors,
            Self::Int(_) | Self::Bool(_) | Self::Absent | Self::Plain(_) | Self::Other => &[],
        }
    }

    /// What a call that is run again does not have.
    pub(super) fn other<T>(self) -> Option<T> {
        None
    }
}

/// Runs an op and returns its float results; `None` if the arguments are not those of the op.
pub(crate) type Run<B, G> = fn(Vec<Given<'_, B, G>>) -> Option<Vec<AmpTensor<B, G>>>;

/// Makes a [`Given`] of an argument. `Given`, `Plain` and `Cow` must be in scope.
macro_rules! given {
    ([F] $x:ident) => {
        Given::Float(Cow::Borrowed(&$x))
    };
    ([Option<F>] $x:ident) => {
        $x.as_ref()
            .map_or(Given::Absent, |x| Given::Float(Cow::Borrowed(x)))
    };
    ([Vec<F>] $x:ident) => {
        Given::Floats(Cow::Borrowed(&$x))
    };
    ([I] $x:ident) => {
        Given::Int($x.clone())
    };
    ([Bool] $x:ident) => {
        Given::Bool($x.clone())
    };
    ([Option<Bool>] $x:ident) => {
        $x.clone().map_or(Given::Absent, Given::Bool)
    };
    ([&Device] $x:ident) => {
        Given::Other
    };
    ([TensorData] $x:ident) => {
        Given::Other
    };
    ([Distribution] $x:ident) => {
        Given::Other
    };
    ([&[$of:ident]] $x:ident) => {
        Given::Plain($x.to_vec().write())
    };
    ($kind:tt $x:ident) => {
        Given::Plain($x.write())
    };
}

/// Takes an argument out of a [`Given`]; leaves the function if it is of another kind.
macro_rules! taken {
    ([F] $given:expr, $type:ty) => { taken!($given, Given::Float(x) => x.into_owned()) };
    ([Option<F>] $given:expr, $type:ty) => {
        taken!($given, Given::Absent => None, Given::Float(x) => Some(x.into_owned()))
    };
    ([Vec<F>] $given:expr, $type:ty) => { taken!($given, Given::Floats(x) => x.into_owned()) };
    ([I] $given:expr, $type:ty) => { taken!($given, Given::Int(x) => x) };
    ([Bool] $given:expr, $type:ty) => { taken!($given, Given::Bool(x) => x) };
    ([Option<Bool>] $given:expr, $type:ty) => {
        taken!($given, Given::Absent => None, Given::Bool(x) => Some(x))
    };
    ([&Device] $given:expr, $type:ty) => { $given.other()? };
    ([TensorData] $given:expr, $type:ty) => { $given.other()? };
    ([Distribution] $given:expr, $type:ty) => { $given.other()? };
    ([&[$of:ident]] $given:expr, $type:ty) => {
        &taken!($given, Given::Plain(json) => <Vec<$of> as Plain>::read(json)?)
    };
    ($kind:tt $given:expr, $type:ty) => {
        taken!($given, Given::Plain(json) => <$type as Plain>::read(json)?)
    };
    ($given:expr, $($arm:pat => $value:expr),*) => {
        match $given { $($arm => $value,)* _ => return None }
    };
}

/// The first code for an op with float results, the second for any other.
macro_rules! if_float {
    ([F] { $($code:tt)* } $other:tt) => { $($code)* };
    ([Wide] { $($code:tt)* } $other:tt) => { $($code)* };
    ([(F, F)] { $($code:tt)* } $other:tt) => { $($code)* };
    ([(F, I)] { $($code:tt)* } $other:tt) => { $($code)* };
    ([DeformConv2dBackward] { $($code:tt)* } $other:tt) => { $($code)* };
    ([MaxPool1dBackward] { $($code:tt)* } $other:tt) => { $($code)* };
    ([MaxPool2dBackward] { $($code:tt)* } $other:tt) => { $($code)* };
    ([MaxPool1dWithIndices] { $($code:tt)* } $other:tt) => { $($code)* };
    ([MaxPool2dWithIndices] { $($code:tt)* } $other:tt) => { $($code)* };
    ($result:tt $code:tt { $($other:tt)* }) => { $($other)* };
}

/// The float results of a call.
macro_rules! floats {
    ([(F, F)] $x:ident) => {
        vec![&mut $x.0, &mut $x.1]
    };
    ([(F, I)] $x:ident) => {
        vec![&mut $x.0]
    };
    ([DeformConv2dBackward] $x:ident) => {
        [&mut $x.x_grad, &mut $x.offset_grad, &mut $x.weight_grad]
            .into_iter()
            .chain(&mut $x.mask_grad)
            .chain(&mut $x.bias_grad)
            .collect()
    };
    ([MaxPool1dBackward] $x:ident) => {
        vec![&mut $x.x_grad]
    };
    ([MaxPool2dBackward] $x:ident) => {
        vec![&mut $x.x_grad]
    };
    ([MaxPool1dWithIndices] $x:ident) => {
        vec![&mut $x.output]
    };
    ([MaxPool2dWithIndices] $x:ident) => {
        vec![&mut $x.output]
    };
    ($result:tt $x:ident) => {
        vec![&mut $x]
    };
}

pub(crate) use {floats, given, if_float, taken};
