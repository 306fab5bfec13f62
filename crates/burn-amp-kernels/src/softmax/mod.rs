//! Softmax in mixed precision: reads and writes the operand's dtype, computes in F32.
//!
//! [`forward`]: `exp(x - max) / sum(exp(x - max))` along `dim`, for any
//! shape, in the dtype of `x`. A row whose elements are all -inf gives NaN, as in Burn. The backward pass needs only
//! the output `y`:
//!
//! ```text
//! dx = y (g - sum(g y) / sum(y))
//! ```
//!
//! As it is stored, `y` is rounded and its sum is not quite 1. Without the division, what all elements of `g` have in
//! common would not cancel: it would leave its product with the error of the sum, which is larger than the gradient
//! where the scores matter little, as those of attention to positions that are nearly alike.
//!
//! A [`ScaleMask`] multiplies `x` by a factor and masks it
//! on the way, as attention does: without another pass over the scores, and without rounding them in between. Its
//! gradient is `dx` times the factor, and 0 where the mask is.
//!
//! The kernels compute along the last dimension. Another dimension is swapped with the last one first, which costs a
//! copy of each operand. A team of units works on one row at a time and keeps it in registers, up to 16384 elements. A
//! longer row is read again for the maximum, the sum and the output.
//!
//! Buffers: operands are read in place if their rows are equally far apart (padded, sliced or expanded), and from a
//! contiguous copy otherwise; the output is new and contiguous. F64 tensors use the reference. Empty tensors launch
//! nothing.
//!
//! Bytes per element in F16 or BF16; the last column is the reference, op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 44 |
//! | backward | 4 | 2 | 54 |

#[cfg(feature = "cubecl")]
mod before;
#[cfg(feature = "cubecl")]
mod kernel;
#[cfg(feature = "cubecl")]
mod mask_rows;
mod scale_mask;

#[cfg(feature = "cubecl")]
pub(crate) use kernel::softmax as launch;
pub use scale_mask::{Mask, ScaleMask};

#[cfg(feature = "cubecl")]
use crate::cube::plan::swap_with_last;
use crate::{graph::saved::SavedTensor, prelude::*};

/// Computes the softmax along `dim`, in the dtype of `x`, of an operand that is scaled and masked `before`.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<B> {
    let (before, mask) = before.split();
    let operands = Tensors::from([x]).with_bools(mask);
    B::run(SoftmaxForward { dim, before }, operands).one()
}

/// Computes the gradient of [`forward`] with respect to `x`, from its output, in the dtype of the output.
pub fn backward<B: AmpBackend>(
    output: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
    before: ScaleMask<BoolTensor<B>>,
) -> FloatTensor<B> {
    let (before, mask) = before.split();
    let operands = Tensors::from([output, grad]).with_bools(mask);
    B::run(SoftmaxBackward { dim, before }, operands).one()
}

#[derive(Clone, Debug)]
struct SoftmaxForward {
    dim: usize,
    before: ScaleMask<()>,
}

impl Kernel for SoftmaxForward {
    const NAME: &'static str = "burn_amp::softmax";

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let before = self.before.with_mask(operands.bools.pop());
        let x = operands.one();
        let dtype = x.dtype();
        let x = before.apply::<B>(widen::<B>(x));
        [cast::<B>(B::softmax(x, self.dim), dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, mut operands: CubeTensors<R>) -> Launched<R> {
        let in_last = |tensor| swap_with_last(tensor, self.dim);
        let before = self.before.with_mask(operands.bools.pop().map(in_last));
        let x = in_last(operands.one());
        let dtype = x.dtype;
        Ok([in_last(launch(x, before, dtype, None))].into())
    }

    /// The node keeps the output, or the operand under a checkpointing strategy that computes results again.
    fn record<B: AmpBackend, C: CheckpointStrategy>(
        self,
        mut operands: Graph<B, C>,
    ) -> Graph<B, C> {
        let before = self.before.with_mask(operands.bools.pop());
        let (x, dim) = (operands.one(), self.dim);
        let keeps_output = !recomputes::<C>();
        let again = {
            let before = before.clone();
            move |[x]: [FloatTensor<B>; 1]| forward::<B>(x, dim, before.clone())
        };
        let node = Recording::<B, C, _, 1>::computed_again([&x], |_| !keeps_output, again);
        let output = forward::<B>(x.primitive, dim, before.clone());
        let mut kept = None;
        let output = node.finish(output, |output| {
            kept = keeps_output.then(|| SavedTensor::of(output.clone()));
            SoftmaxSaved::<B> {
                output: kept.clone(),
                dim,
                before,
            }
        });
        if let Some(kept) = kept {
            kept.is_at(output.node.id);
        }
        [output].into()
    }
}

#[derive(Clone, Debug)]
struct SoftmaxSaved<B: AmpBackend> {
    /// The output; `None` if it is computed again.
    output: Option<SavedTensor<B>>,
    dim: usize,
    /// What the operand goes through first.
    before: ScaleMask<BoolTensor<B>>,
}

impl<B: AmpBackend> Node<B> for SoftmaxSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let Self {
            output,
            dim,
            before,
        } = self;
        let output = output.map_or_else(
            || {
                let x = pass.operand(0).expect("the operand is read");
                forward::<B>(x, dim, before.clone())
            },
            SavedTensor::values,
        );
        let grad = pass.gradient();
        let gradient = backward::<B>(output, grad, dim, before);
        pass.register(0, seen::<B>(gradient));
    }
}

#[derive(Clone, Debug)]
struct SoftmaxBackward {
    dim: usize,
    before: ScaleMask<()>,
}

impl Kernel for SoftmaxBackward {
    const NAME: &'static str = "burn_amp::softmax_backward";

    /// A row of zeros, as attention has where all keys are masked, gives zeros.
    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let before = self.before.with_mask(operands.bools.pop());
        let [output, grad] = operands.exactly();
        let dtype = output.dtype();
        let (output, grad) = (widen::<B>(output), cast::<B>(grad, wide_dtype(dtype)));
        let sum = B::float_sum_dim(B::float_mul(grad.clone(), output.clone()), self.dim);
        let weight = sum_dim::<B>(output.clone(), self.dim);
        let is_zero = B::float_equal_elem(weight.clone(), 0f32.into(), bool_dtype::<B>(&weight));
        let weight = B::float_mask_fill(weight, is_zero, 1f32.into());
        let dx = B::float_mul(output, B::float_sub(grad, B::float_div(sum, weight)));
        [cast::<B>(before.backward().apply::<B>(dx), dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, mut operands: CubeTensors<R>) -> Launched<R> {
        let in_last = |tensor| swap_with_last(tensor, self.dim);
        let before = self.before.with_mask(operands.bools.pop().map(in_last));
        let [output, grad] = operands.exactly().map(in_last);
        Ok([in_last(kernel::softmax_backward(output, grad, before))].into())
    }
}
