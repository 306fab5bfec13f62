//! The tensors of an op: of a backend, or described by shape and dtype.

use burn_autodiff::Autodiff;
use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
#[cfg(feature = "cubecl")]
use burn_cubecl::tensor::CubeTensor;

use crate::widen::wide_dtype;

/// The shape and the dtype of a tensor.
pub type Meta = (Shape, DType);

/// The operands of an op, or its results.
#[derive(Clone, Debug)]
pub struct Tensors<F, I = F, B = F> {
    /// The float tensors.
    pub floats: Vec<F>,
    /// The int tensors.
    pub ints: Vec<I>,
    /// The bool tensors.
    pub bools: Vec<B>,
}

/// Tensors of a backend.
pub type TensorsOf<B> = Tensors<FloatTensor<B>, IntTensor<B>, BoolTensor<B>>;

/// Tensors of Burn's `Autodiff`.
pub type Graph<B, C> = TensorsOf<Autodiff<B, C>>;

/// Tensors of a backend made of burn-cubecl.
#[cfg(feature = "cubecl")]
pub type CubeTensors<R> = Tensors<CubeTensor<R>>;

/// The results of a kernel, or the operands if there is no kernel for them.
#[cfg(feature = "cubecl")]
pub type Launched<R> = Result<CubeTensors<R>, CubeTensors<R>>;

impl<F, I, B> From<Vec<F>> for Tensors<F, I, B> {
    fn from(floats: Vec<F>) -> Self {
        Self {
            floats,
            ints: Vec::new(),
            bools: Vec::new(),
        }
    }
}

impl<F, I, B, const N: usize> From<[F; N]> for Tensors<F, I, B> {
    fn from(floats: [F; N]) -> Self {
        Vec::from(floats).into()
    }
}

impl<F, I, B, const N: usize> From<([F; N], Option<F>)> for Tensors<F, I, B> {
    fn from((floats, last): ([F; N], Option<F>)) -> Self {
        Vec::from_iter(floats.into_iter().chain(last)).into()
    }
}

impl<F, I, B> Tensors<F, I, B> {
    /// Adds int tensors.
    pub fn with_ints(self, ints: impl IntoIterator<Item = I>) -> Self {
        Self {
            ints: ints.into_iter().collect(),
            ..self
        }
    }

    /// Adds bool tensors.
    pub fn with_bools(self, bools: impl IntoIterator<Item = B>) -> Self {
        Self {
            bools: bools.into_iter().collect(),
            ..self
        }
    }

    /// Returns the float tensors, of which there must be `N`.
    pub fn exactly<const N: usize>(self) -> [F; N] {
        exactly(self.floats)
    }

    /// Returns `N` float tensors, and the one behind them if there is one.
    pub(crate) fn and_maybe<const N: usize>(mut self) -> ([F; N], Option<F>) {
        let has_last = self.floats.len() > N;
        let last = has_last.then(|| self.floats.pop()).flatten();
        (self.exactly(), last)
    }

    /// Returns the only float tensor.
    pub fn one(self) -> F {
        let [one] = self.exactly();
        one
    }

    /// Whether the first tensor has no elements.
    #[cfg(feature = "cubecl")]
    pub(crate) fn is_empty(&self) -> bool
    where
        F: TensorMetadata,
    {
        self.floats[0].shape().num_elements() == 0
    }

    /// Describes the tensors.
    pub fn metas(&self) -> Tensors<Meta>
    where
        F: TensorMetadata,
        I: TensorMetadata,
        B: TensorMetadata,
    {
        Tensors {
            floats: self.floats.iter().map(like).collect(),
            ints: self.ints.iter().map(like).collect(),
            bools: self.bools.iter().map(like).collect(),
        }
    }
}

/// Returns whether one of the tensors is F64.
#[cfg(feature = "cubecl")]
pub(crate) fn has_f64(tensors: &[impl TensorMetadata]) -> bool {
    tensors.iter().any(|tensor| tensor.dtype() == DType::F64)
}

/// Describes a tensor.
fn like(tensor: &impl TensorMetadata) -> Meta {
    (tensor.shape(), tensor.dtype())
}

/// Describes a result with one number per row along `dim`, in the dtype in which an op computes.
pub(crate) fn one_per_row((shape, dtype): &Meta, dim: usize) -> Meta {
    let mut shape = shape.clone();
    shape[dim] = 1;
    (shape, wide_dtype(*dtype))
}

/// Turns a list into an array.
///
/// # Panics
///
/// Panics if it has another length.
pub(crate) fn exactly<T, const N: usize>(list: Vec<T>) -> [T; N] {
    let found = list.len();
    list.try_into()
        .unwrap_or_else(|_| panic!("an op that has {N} tensors was given {found}"))
}
