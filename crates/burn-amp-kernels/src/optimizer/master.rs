//! The master of a parameter in half precision, in the form in which it is kept.

use burn_backend::{
    Backend, DType, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use serde::{Deserialize, Serialize};

use super::offset;
use crate::widen::cast;

/// The F32 master of a parameter that is stored in half precision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Master<F, I = F> {
    /// No separate master: the parameter is its own, or masters are not kept.
    Parameter,
    /// An F32 tensor of the shape of the parameter.
    F32(F),
    /// The [offset](super::offset) from a BF16 parameter, of its shape, in I16 or I8.
    // The name in files of the first version of `MasterWeights`.
    #[serde(alias = "Beside")]
    Offset(I),
}

/// The master in tensors of a backend.
pub type MasterOf<B> = Master<FloatTensor<B>, IntTensor<B>>;

impl<F, I> Master<F, I> {
    /// Replaces its tensor.
    pub fn map<G, J>(self, float: impl FnOnce(F) -> G, int: impl FnOnce(I) -> J) -> Master<G, J> {
        match self {
            Self::Parameter => Master::Parameter,
            Self::F32(master) => Master::F32(float(master)),
            Self::Offset(offset) => Master::Offset(int(offset)),
        }
    }
}

/// Returns the weights of a parameter in F32, which an optimizer steps.
pub fn weights<B: Backend>(master: MasterOf<B>, parameter: FloatTensor<B>) -> FloatTensor<B> {
    match master {
        Master::F32(master) => master,
        Master::Offset(offset) if parameter.dtype() == DType::BF16 => {
            offset::join::<B>(parameter, offset)
        }
        // An offset means nothing without the BF16 parameter that it belongs to.
        Master::Offset(_) | Master::Parameter => cast::<B>(parameter, DType::F32),
    }
}
