//! Products of two tensors.
//!
//! [`of_matrices`] is Burn's `matmul`, in a node that keeps its operands as the other nodes do.
//!
//! [`forward`] multiplies elements in F32 (F64 for F64) and does not round the
//! result. In F16 a product overflows where both operands are above 256. On Burn's `Autodiff` it is one node, which saves
//! its operands as they are stored, and rounds their gradients once. It has no kernel of its own: it is elementwise, and
//! Fusion makes one kernel of it.

use burn_autodiff::ops::broadcast_shape;

use crate::prelude::*;

/// Computes the product of two tensors, in F32.
pub fn forward<B: AmpBackend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    B::run(Product, [lhs, rhs].into()).one()
}

/// Computes the product of two matrices, or of two batches of them, in the dtype of the operands.
pub fn of_matrices<B: AmpBackend>(lhs: FloatTensor<B>, rhs: FloatTensor<B>) -> FloatTensor<B> {
    B::run(ProductOfMatrices, [lhs, rhs].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct ProductOfMatrices;

impl Kernel for ProductOfMatrices {
    const NAME: &'static str = "burn_amp::product_of_matrices";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [lhs, rhs] = operands.exactly();
        [B::float_matmul(lhs, rhs)].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [lhs, rhs] = operands.exactly();
        let operands = [&lhs, &rhs];
        let saved = ProductOfMatricesSaved(operands.map(TensorMetadata::shape));
        // Each operand is read for the gradient of the other one.
        let node = Recording::<B, C, _, 2>::new(operands, |at| operands[1 - at].is_tracked());
        let product = B::float_matmul(lhs.primitive, rhs.primitive);
        [node.finish(product, |_| saved)].into()
    }
}

/// The shapes of the operands.
#[derive(Clone, Debug)]
struct ProductOfMatricesSaved([Shape; 2]);

impl<B: AmpBackend> Node<B> for ProductOfMatricesSaved {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let [of_lhs, of_rhs] = self.0;
        if let Some(rhs) = pass.operand(1) {
            let gradient = B::float_matmul(grad.clone(), B::float_transpose(rhs));
            pass.register(0, broadcast_shape::<B>(gradient, &of_lhs));
        }
        if let Some(lhs) = pass.operand(0) {
            let gradient = B::float_matmul(B::float_transpose(lhs), grad);
            pass.register(1, broadcast_shape::<B>(gradient, &of_rhs));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Product;

impl Kernel for Product {
    const NAME: &'static str = "burn_amp::product";
    const IS_COMPOSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [lhs, rhs] = operands.exactly();
        [B::float_mul(widen::<B>(lhs), widen::<B>(rhs))].into()
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [lhs, rhs] = operands.exactly();
        let operands = [&lhs, &rhs];
        let saved = ProductSaved(operands.map(|operand| (operand.shape(), operand.dtype())));
        // Each operand is read for the gradient of the other one.
        let node = Recording::<B, C, _, 2>::new(operands, |at| operands[1 - at].is_tracked());
        let product = forward::<B>(lhs.primitive, rhs.primitive);
        [node.finish(product, |_| saved)].into()
    }
}

/// The shapes and the dtypes of the operands.
#[derive(Clone, Debug)]
struct ProductSaved([Meta; 2]);

impl<B: AmpBackend> Node<B> for ProductSaved {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let [lhs, rhs] = [0, 1].map(|at| pass.operand(at));
        for (at, ((shape, dtype), other)) in self.0.into_iter().zip([rhs, lhs]).enumerate() {
            if let Some(other) = other {
                let gradient = B::float_mul(grad.clone(), widen::<B>(other));
                let gradient = broadcast_shape::<B>(gradient, &shape);
                pass.register(at, cast::<B>(gradient, dtype));
            }
        }
    }
}
