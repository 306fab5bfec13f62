//! The master of a parameter in half precision, in the form in which it is kept.

use burn_backend::{
    Backend,
    tensor::{FloatTensor, IntTensor},
};

/// The F32 master of a parameter that is stored in half precision.
#[derive(Clone, Debug)]
pub enum Master<B: Backend> {
    /// An F32 tensor of the shape of the parameter.
    F32(FloatTensor<B>),
    /// The I16 [offset](super::offset) from a BF16 parameter, of its shape.
    Offset(IntTensor<B>),
}
