//! Products with weights in low precision, whose gradient is F32.
//!
//! [`forward`] is `x weight + bias` of matrices in low precision, where `weight` was cast from an F32 parameter, and `bias`
//! is F32. On Burn's `Autodiff` it is one node. The gradient of the weights is `xᵀ g`, that of the bias the sum of the rows
//! of `g`; both are sums over all rows of a batch, and go to F32 parameters. [`wide_matmul`] and [`column_sums`] write
//! them in F32: the kernels, which add in F32, do so without rounding them first, and without casts of the size of the
//! parameters.
//!
//! Columns of up to 16384 rows, or 4096 where a cube has 256 units, are added in one launch: a unit adds some of the rows of
//! one vector of columns, and the units of a cube then add up their sums. Longer columns are added as those of
//! [`affine`], in two launches. No atomics are used, so the order of additions depends on the shape alone.
//!
//! The gradients of a weight that is used several times in a pass, as in a recurrent net, are computed
//! [`together`], from copies of the operands of up to 16 uses below one another. So are those of a bias that the program adds
//! itself.

mod bias;
mod deferred;
mod in_graph;
#[cfg(feature = "cubecl")]
mod kernel;

use std::sync::Arc;

use burn_autodiff::NodeId;
use burn_backend::ops::FloatTensorOps;
#[cfg(feature = "cubecl")]
use burn_cubecl::{
    kernel::matmul::{MatmulStrategy, matmul},
    ops::reshape,
};

pub use deferred::{is_worth_deferring, together};
pub use in_graph::{InGraph, Reached, Use};
#[cfg(feature = "cubecl")]
pub(crate) use kernel::column_sums as column_sums_of;

use self::deferred::Operands;
#[cfg(feature = "cubecl")]
use crate::affine::SumsOfValues;
use crate::{
    affine::{self, Affine},
    graph::values,
    names::are_exchanged,
    prelude::*,
};

/// Computes the product of a matrix with weights that were cast from an F32 parameter, plus an F32 bias. Without a bias it may be a
/// batch of matrices. On Burn's `Autodiff` the operands may have the nodes of others, [`InGraph`].
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    in_graph: InGraph,
) -> FloatTensor<B> {
    B::run(WeightProduct { in_graph }, ([x, weight], bias).into()).one()
}

/// Adds an F32 bias to a product in low precision: a row, or a tensor of one dimension. The sum is computed in F32 and stored as
/// the product is. On Burn's `Autodiff` it is one node.
pub fn plus_bias<B: AmpBackend>(product: FloatTensor<B>, bias: FloatTensor<B>) -> FloatTensor<B> {
    B::run(PlusBias, [product, bias].into()).one()
}

/// Computes the product of two matrices in low precision, in F32.
pub fn wide_matmul<B: AmpBackend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    B::run(WideMatmul, [lhs, rhs].into()).one()
}

/// Computes the sums of the columns of a matrix, in F32, of shape `[columns]`.
pub fn column_sums<B: AmpBackend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::run(ColumnSums, [x].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct WideMatmul;

impl Kernel for WideMatmul {
    const NAME: &'static str = "burn_amp::wide_matmul";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [(mut shape, dtype), (rhs, _)] = operands.clone().exactly();
        let last = shape.num_dims() - 1;
        shape[last] = rhs[last];
        [(shape, wide_dtype(dtype))].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [lhs, rhs] = operands.exactly();
        [widen::<B>(B::float_matmul(lhs, rhs))].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let [lhs, rhs] = operands.exactly();
        let product = matmul(lhs, rhs, None, MatmulStrategy::default(), DType::F32);
        Ok([product.expect("a product of matrices has a kernel on every device")].into())
    }
}

#[derive(Clone, Copy, Debug)]
struct ColumnSums;

impl Kernel for ColumnSums {
    const NAME: &'static str = "burn_amp::column_sums";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let (shape, dtype) = &operands.floats[0];
        [(Shape::new([shape[1]]), wide_dtype(*dtype))].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let sums = sum_dim::<B>(widen::<B>(operands.one()), 0);
        let columns = Shape::new([sums.shape()[1]]);
        [B::float_reshape(sums, columns)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let x = operands.one();
        if let Some(sums) = kernel::column_sums(&x) {
            return Ok([sums].into());
        }
        let columns = x.meta.shape()[1];
        let sums = SumsOfValues {
            grid: x.shape(),
            kept: Shape::new([1, columns]),
            mean: false,
        };
        let [sum, _] = sums.launch::<R>([x].into())?.exactly();
        Ok([reshape(sum, Shape::new([columns]))].into())
    }
}

#[derive(Clone, Copy, Debug)]
struct PlusBias;

impl Kernel for PlusBias {
    const NAME: &'static str = "burn_amp::plus_bias";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [product, bias] = operands.exactly();
        let dtype = FloatDType::from(product.dtype());
        let bias = as_row::<B>(bias, product.rank());
        // A backend that fuses makes one kernel of the sum and what follows.
        [if B::fuses_elementwise() {
            let sum = B::float_add(widen::<B>(product), bias);
            B::float_cast(sum, dtype)
        } else {
            let plus_bias = Affine {
                after: Some(bias),
                ..Affine::identity(product.shape())
            };
            affine::forward::<B>(product, plus_bias, None, dtype)
        }]
        .into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let operands = operands.floats;
        let sum = B::run(self, values::<B, C>(&operands).into()).one();
        let bias = &operands[1];
        let is_leaf = bias.rank() == 1 && Autodiff::<B, C>::float_is_require_grad(bias);
        let bias = PlusBiasSaved {
            shape: bias.primitive.shape(),
            leaf: is_leaf.then_some(bias.node.id),
        };
        let operands = [&operands[0], &operands[1]];
        [Recording::<B, C, _, 2>::new(operands, |_| false).finish(sum, |_| bias)].into()
    }
}

#[derive(Clone, Debug)]
struct PlusBiasSaved {
    /// The shape of the bias.
    shape: Shape,
    /// The node of the bias, if it is a leaf of one dimension.
    leaf: Option<NodeId>,
}

impl<B: AmpBackend> Node<B> for PlusBiasSaved {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let mut grad = pass.gradient();
        let left = pass.parent(0).zip(self.leaf);
        if let Some((product, leaf)) = left.filter(|_| !are_exchanged(pass.grads)) {
            grad = match bias::leave::<B>(product, leaf, grad) {
                Ok(()) => return,
                Err(grad) => grad,
            };
        }
        // The first op, as in the node of a whole product.
        if let Some(bias) = pass.parent(1) {
            let sums = column_sums::<B>(matrix::<B>(seen::<B>(grad.clone())));
            let sums = B::float_reshape(sums, self.shape);
            pass.grads.register::<B>(bias, sums);
        }
        pass.register(0, grad);
    }
}

#[derive(Clone, Debug)]
struct WeightProduct {
    in_graph: InGraph,
}

impl Kernel for WeightProduct {
    const NAME: &'static str = "burn_amp::weight_product";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, weight], bias) = operands.and_maybe();
        let product = match x.rank() {
            2 => B::float_matmul(x, weight),
            rank => {
                let [d_input, d_output] = weight.shape().dims();
                let mut batch = vec![1; rank];
                batch[rank - 2..].copy_from_slice(&[d_input, d_output]);
                B::float_matmul(x, B::float_reshape(weight, batch.into()))
            }
        };
        [match bias {
            Some(bias) => plus_bias::<B>(product, bias),
            None => product,
        }]
        .into()
    }

    /// The node keeps the operands that the gradients need.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let mut operands = operands.floats;
        let in_graph = self.in_graph.clone();
        if let Some(used) = &in_graph.weight {
            used.place::<B, C>(&mut operands[0]);
        }
        let output = B::run(self, values::<B, C>(&operands).into()).one();
        let bias = operands.get(2);
        let saved = WeightProductSaved {
            in_graph,
            bias_is_leaf: bias.is_some_and(Autodiff::<B, C>::float_is_require_grad),
            added_later: bias.is_none().then(Arc::default),
        };
        // `x` and the weights are read for the gradient of each other.
        let reads = |at: usize| at < 2 && operands[1 - at].is_tracked();
        let added_later = saved.added_later.clone();
        let output = by_length!(operands, 2 3; N => {
            let operands = std::array::from_fn(|at| &operands[at]);
            Recording::<B, C, _, N>::new(operands, reads).finish(output, |_| saved)
        });
        if let Some(bias) = added_later {
            bias.wait_at(output.node.id);
        }
        [output].into()
    }
}

#[derive(Clone, Debug)]
struct WeightProductSaved<B: AmpBackend> {
    in_graph: InGraph,
    bias_is_leaf: bool,
    /// The leaf of the bias, if the program adds one to the product.
    added_later: Option<Arc<bias::Added<B>>>,
}

impl<B: AmpBackend> Node<B> for WeightProductSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let InGraph {
            x: wide,
            weight: used,
        } = self.in_graph;
        if let Some(used) = &used {
            used.reached();
        }
        let (grad, added_later) = bias::with_leaf(self.added_later.as_deref(), &mut pass);
        let batch = grad.shape();
        let grad = matrix::<B>(seen::<B>(grad));
        let [x, weight] = [0, 1].map(|at| pass.operand(at));
        let x = x.map(matrix::<B>);
        let mut bias = pass.parent(2).or(added_later);
        let bias_is_leaf = self.bias_is_leaf || added_later.is_some();
        // The gradient of the bias is the first op: a backend that fuses ends the kernel of `grad` there, which else would
        // read the transposed operands of the products.
        if let Some(bias) = bias.take_if(|_| !bias_is_leaf || x.is_none()) {
            let gradient = column_sums::<B>(grad.clone());
            pass.grads.register::<B>(bias, gradient);
        }
        if let (Some(node), Some(x)) = (pass.parent(1), x) {
            let operands = Operands::<B> {
                x,
                grad: grad.clone(),
                bias,
            };
            if used.is_some_and(|used| used.is_further) && !are_exchanged(pass.grads) {
                operands.register_later(node, pass.grads);
            } else {
                operands.register(node, pass.grads);
            }
        }
        if let Some(weight) = weight {
            let grad = B::float_matmul(grad, B::float_transpose(weight));
            let grad = batched::<B>(grad, batch);
            match wide {
                Some(dtype) => affine::pass_on::<B, _, N>(grad, &pass.ops, dtype, pass.grads),
                None => pass.register(0, grad),
            }
        }
    }
}

/// A bias as a row with `rank` dimensions.
fn as_row<B: AmpBackend>(bias: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    if bias.rank() == rank {
        return bias;
    }
    let mut row = vec![1; rank];
    row[rank - 1] = bias.shape().num_elements();
    B::float_reshape(bias, row.into())
}

/// A batch of matrices as one, with all their rows.
fn matrix<B: AmpBackend>(batch: FloatTensor<B>) -> FloatTensor<B> {
    let shape = batch.shape();
    let rank = shape.num_dims();
    if rank == 2 {
        return batch;
    }
    let rows = shape.as_slice()[..rank - 1].iter().product();
    B::float_reshape(batch, Shape::new([rows, shape[rank - 1]]))
}

/// A matrix as a batch whose last dimension alone may be another than that of `batch`.
fn batched<B: AmpBackend>(matrix: FloatTensor<B>, mut batch: Shape) -> FloatTensor<B> {
    let last = batch.num_dims() - 1;
    if last == 1 {
        return matrix;
    }
    batch[last] = matrix.shape()[1];
    B::float_reshape(matrix, batch)
}
