//! Ops of a tensor and a scalar in mixed precision: they read and write the operand's dtype, and compute in F32.
//!
//! [`forward`] computes `x op scalar` in F32 (F64 for F64) and rounds the
//! result once, to the dtype of `x`. Burn's own ops round the scalar to that dtype first: in BF16 they multiply by 0.9883
//! instead of 0.99. The kernel reads and writes each element once, in any layout. Empty tensors launch nothing.
//!
//! On Burn's `Autodiff` each op is one node, which saves no tensor, or the signs of `x` for a leaky ReLU. The backward
//! pass computes in F32 too, and rounds the gradient once.

#[cfg(feature = "cubecl")]
mod kernel;

use burn_backend::Scalar;

use crate::{made, prelude::*};

/// An op of a tensor and a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// `x + scalar`
    Add,
    /// `x - scalar`
    Sub,
    /// `x * scalar`
    Mul,
    /// `x / scalar`
    Div,
    /// `x * scalar` where `x < 0`, else `x`
    LeakyRelu,
}

/// Computes an op of a tensor and a scalar in mixed precision, in the dtype of `x`.
pub fn forward<B: AmpBackend>(x: FloatTensor<B>, op: ScalarOp, scalar: f64) -> FloatTensor<B> {
    B::run(ScalarForward { op, scalar }, [x].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct ScalarForward {
    op: ScalarOp,
    scalar: f64,
}

impl Kernel for ScalarForward {
    const NAME: &'static str = "burn_amp::scalar";
    const IS_FUSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = operands.one();
        // burn-cubecl 0.21.0 computes a negative size for an empty operand.
        if x.shape().num_elements() == 0 {
            return [x].into();
        }
        let dtype = x.dtype();
        let (x, scalar) = (widen::<B>(x), Scalar::from(self.scalar));
        let result = match self.op {
            ScalarOp::Add => B::float_add_scalar(x, scalar),
            ScalarOp::Sub => B::float_sub_scalar(x, scalar),
            ScalarOp::Mul => B::float_mul_scalar(x, scalar),
            ScalarOp::Div => B::float_div_scalar(x, scalar),
            ScalarOp::LeakyRelu => B::leaky_relu(x, scalar),
        };
        [cast::<B>(result, dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if operands.is_empty() {
            return Err(operands);
        }
        let output = kernel::scalar(operands.one(), self.op, self.scalar as f32);
        Ok([output].into())
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        let keeps_signs = self.op == ScalarOp::LeakyRelu && x.is_tracked();
        let saved = ScalarSaved::<B> {
            op: self,
            negative: keeps_signs.then(|| negative::<B>(&x.primitive)),
        };
        let compute = move |x: [FloatTensor<B>; 1]| B::run(self, x.into()).one();
        let node = Recording::<B, C, _, 1>::computed_again([&x], |_| false, compute);
        [node.finish(compute([x.primitive]), |_| saved)].into()
    }
}

/// Returns where a tensor is negative.
fn negative<B: AmpBackend>(x: &FloatTensor<B>) -> BoolTensor<B> {
    let negative = B::float_lower_elem(x.clone(), 0f32.into(), bool_dtype::<B>(x));
    made::bool::<B>(&negative);
    negative
}

#[derive(Clone, Debug)]
struct ScalarSaved<B: AmpBackend> {
    op: ScalarForward,
    /// Where the operand of a leaky ReLU is negative.
    negative: Option<BoolTensor<B>>,
}

impl<B: AmpBackend> Node<B> for ScalarSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let ScalarForward { op, scalar } = self.op;
        let gradient = match (op, self.negative) {
            (ScalarOp::Add | ScalarOp::Sub, _) => grad,
            (ScalarOp::Mul | ScalarOp::Div, _) => forward::<B>(grad, op, scalar),
            (ScalarOp::LeakyRelu, negative) => {
                let negative = negative.expect("the node of a leaky ReLU saves the signs");
                let scaled = forward::<B>(grad.clone(), ScalarOp::Mul, scalar);
                B::float_mask_where(grad, negative, scaled)
            }
        };
        pass.register(0, gradient);
    }
}
