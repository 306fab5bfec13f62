//! Embeddings, whose gradient is added without a race and without a scatter.
//!
//! [`forward`] is Burn's `embedding`. The gradient of its table is, for each row, the sum of the rows of the output's gradient at whose
//! place the index of that row stands. Burn's kernel gives a unit one column and all of its rows, one after the other. Here
//! a cube has a row of the table, or a few of a large one, looks through all indices, and adds what belongs to its rows. Its units
//! share the indices of a single row. Where rows are few, the indices are cut into slices, whose sums are added afterwards. The order of additions
//! depends on the shapes alone. The sums are F32, whatever the dtype of the gradient.

#[cfg(feature = "cubecl")]
mod kernel;

use crate::{names::select_add, prelude::*};

/// Picks a row of the table `[rows, columns]` for each index. On Burn's `Autodiff` it is one node.
pub fn forward<B: AmpBackend>(table: FloatTensor<B>, indices: IntTensor<B>) -> FloatTensor<B> {
    let operands = Tensors::from([table]);
    B::run(Embedding, operands.with_ints([indices])).one()
}

/// Adds each row of the gradient `[n, columns]` to the row of a table that has its index `[n]`: F32, `[rows, columns]`.
pub fn backward<B: AmpBackend>(
    grad: FloatTensor<B>,
    indices: IntTensor<B>,
    rows: usize,
) -> FloatTensor<B> {
    let operands = Tensors::from([grad]);
    B::run(EmbeddingBackward { rows }, operands.with_ints([indices])).one()
}

#[derive(Clone, Copy, Debug)]
struct Embedding;

impl Kernel for Embedding {
    const NAME: &'static str = "burn_amp::embedding";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [indices] = exactly(operands.ints);
        let [table] = exactly(operands.floats);
        [B::embedding(table, indices)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [indices] = exactly(operands.ints);
        let [table] = exactly(operands.floats);
        let saved = EmbeddingSaved::<B> {
            indices: indices.clone(),
            rows: table.primitive.shape()[0],
            dtype: table.primitive.dtype().into(),
        };
        let output = B::embedding(table.primitive.clone(), indices);
        let node = Recording::<B, C, _, 1>::new([&table], |_| false);
        [node.finish(output, |_| saved)].into()
    }
}

#[derive(Clone, Debug)]
struct EmbeddingSaved<B: AmpBackend> {
    indices: IntTensor<B>,
    /// Of the table.
    rows: usize,
    /// Of the table.
    dtype: FloatDType,
}

impl<B: AmpBackend> Node<B> for EmbeddingSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let [batch, length, columns] = grad.shape().dims();
        let grad = B::float_reshape(grad, Shape::new([batch * length, columns]));
        let indices = B::int_reshape(self.indices, Shape::new([batch * length]));
        let sums = backward::<B>(grad, indices, self.rows);
        pass.register(0, seen::<B>(cast::<B>(sums, self.dtype.into())));
    }
}

#[derive(Clone, Copy, Debug)]
struct EmbeddingBackward {
    /// Of the table.
    rows: usize,
}

impl Kernel for EmbeddingBackward {
    const NAME: &'static str = "burn_amp::embedding_backward";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, dtype) = &operands.floats[0];
        [(Shape::new([self.rows, shape[1]]), wide_dtype(*dtype))].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [indices] = exactly(operands.ints);
        let [grad] = exactly(operands.floats);
        let (grad, columns) = (widen::<B>(grad.clone()), grad.shape()[1]);
        let shape = Shape::new([self.rows, columns]);
        let zeros = B::float_zeros(shape, &device_of::<B>(&grad), grad.dtype().into());
        [select_add::<B>(zeros, 0, indices, grad)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let grad = &operands.floats[0];
        if grad.dtype == DType::F64 || !kernel::takes(grad, self.rows) {
            return Err(operands);
        }
        let [indices] = exactly(operands.ints);
        let [grad] = exactly(operands.floats);
        Ok([kernel::rows_sum(grad, indices, self.rows)].into())
    }
}
