//! [`Kernel`]: an op of this crate as data.

use std::fmt;

use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn_backend::{
    DType, Shape, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
#[cfg(feature = "cubecl")]
use burn_cubecl::{CubeBackend, CubeRuntime, tensor::CubeTensor};

use crate::{AmpBackend, widen::wide_dtype};

/// An op of this crate: its numbers. Its tensors are the operands of [`AmpBackend::run`].
///
/// The kernel and the reference compute the same. A kernel of yours implements this trait, and needs nothing else.
pub trait Kernel: Clone + fmt::Debug + Send + Sync + 'static {
    /// The name of the op, for Fusion and in reports.
    const NAME: &'static str;

    /// Whether the op has no kernel.
    const IS_COMPOSED: bool = false;

    /// Whether Fusion computes the reference, as it makes one kernel of elementwise ops and their neighbours.
    const IS_FUSED: bool = Self::IS_COMPOSED;

    /// Whether the kernel reads F64. Most compute in F32, and leave F64 to the reference.
    const READS_F64: bool = false;

    /// Describes the results for Fusion, unless it computes the reference: one like the first operand, if the op does not say
    /// otherwise.
    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        [operands.floats[0].clone()].into()
    }

    /// Describes what the kernel reads: all operands, unless the op says otherwise.
    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        operands
    }

    /// Computes with Burn's ops.
    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B>;

    /// Computes with the kernel.
    ///
    /// # Errors
    ///
    /// Returns the operands if there is no kernel for them. Then the reference computes.
    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Err(operands)
    }

    /// Computes the op in a graph, as one node. Without a node of its own, the graph has those of the reference.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        self.reference::<Autodiff<B, C>>(operands)
    }
}

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

/// A backend made of burn-cubecl. All of them have the same tensors.
#[cfg(feature = "cubecl")]
pub(crate) type Cube<R> = CubeBackend<R, f32, i32, u8>;

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

/// Describes a tensor.
pub(crate) fn like(tensor: &impl TensorMetadata) -> Meta {
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
