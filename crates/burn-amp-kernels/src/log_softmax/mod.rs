//! Log-softmax in mixed precision: reads the operand's dtype, computes in F32, writes the dtype that is asked for.
//!
//! [`forward`]: `x - log(sum(exp(x)))` along `dim`, for any
//! shape. The backward pass needs the input and one F32 number per row. It computes probabilities from the input, not
//! from the output, which may be rounded:
//!
//! ```text
//! dx = g - exp(x - log_sum_exp) sum(g)
//! ```
//!
//! The forward kernel is that of [`softmax`]. In addition to the output it writes one F32
//! number per row, which is undefined if rows have no elements. Bytes per element with an F16 or BF16 input and an F32
//! output; the last column is the reference, op by op, without Fusion:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 4 | 38 |
//! | backward | 6 | 2 | 52 |

#[cfg(feature = "cubecl")]
mod kernel;

#[cfg(feature = "cubecl")]
use crate::{
    cube::plan::{self, empty_on_device_of, swap_with_last},
    softmax::{self, ScaleMask},
};
use crate::{made, prelude::*};

/// The output of log-softmax, and what the backward pass needs in addition to the input.
#[derive(Debug)]
pub struct LogSoftmax<B: Backend> {
    /// Has the shape of the input and the dtype that was asked for.
    pub output: FloatTensor<B>,
    /// Has the shape of the input with 1 at `dim`; F32.
    pub log_sum_exp: FloatTensor<B>,
}

/// Computes the log-softmax along `dim`, rounded to `dtype`.
pub fn forward<B: AmpBackend>(x: FloatTensor<B>, dim: usize, dtype: FloatDType) -> LogSoftmax<B> {
    let [output, log_sum_exp] = B::run(LogSoftmaxForward { dim, dtype }, [x].into()).exactly();
    LogSoftmax {
        output,
        log_sum_exp,
    }
}

/// Computes the gradient of [`forward`] with respect to `x`, in the dtype of `x`.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    grad: FloatTensor<B>,
    dim: usize,
) -> FloatTensor<B> {
    B::run(LogSoftmaxBackward { dim }, [x, log_sum_exp, grad].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct LogSoftmaxForward {
    dim: usize,
    dtype: FloatDType,
}

impl Kernel for LogSoftmaxForward {
    const NAME: &'static str = "burn_amp::log_softmax";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let x = &operands.floats[0];
        let output = (x.0.clone(), DType::from(self.dtype));
        [output, one_per_row(x, self.dim)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let x = widen::<B>(operands.one());
        let max = B::float_max_dim(x.clone(), self.dim);
        let shifted = B::float_sub(x, max.clone());
        let sum = B::float_sum_dim(B::float_exp(shifted.clone()), self.dim);
        let log_sum = B::float_log(sum);
        let output = B::float_sub(shifted, log_sum.clone());
        let output = cast::<B>(output, self.dtype.into());
        [output, B::float_add(max, log_sum)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        if self.dtype == FloatDType::F64 {
            return Err(operands);
        }
        let in_last = |tensor| swap_with_last(tensor, self.dim);
        let x = in_last(operands.one());
        let log_sum_exp = empty_on_device_of(&x, plan::one_per_row(&x), DType::F32);
        let (none, dtype) = (ScaleMask::none(), self.dtype.into());
        let output = softmax::launch(x, none, dtype, Some(&log_sum_exp));
        Ok([output, log_sum_exp].map(in_last).into())
    }

    /// The node keeps the operand as it is stored and one number per row. The sums of exponentials have no node.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let x = operands.one();
        let [output, log_sum_exp] = B::run(self, [x.primitive.clone()].into()).exactly();
        made::float::<B>(&log_sum_exp);
        let saved = |_: &FloatTensor<B>| LogSoftmaxSaved::<B> {
            x: x.primitive.clone(),
            log_sum_exp: log_sum_exp.clone(),
            dim: self.dim,
        };
        let output = Recording::<B, C, _, 1>::new([&x], |_| false).finish(output, saved);
        let log_sum_exp = untracked::<B, C>(log_sum_exp);
        [output, log_sum_exp].into()
    }
}

#[derive(Clone, Debug)]
struct LogSoftmaxSaved<B: AmpBackend> {
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    dim: usize,
}

impl<B: AmpBackend> Node<B> for LogSoftmaxSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = backward::<B>(self.x, self.log_sum_exp, grad, self.dim);
        pass.register(0, seen::<B>(gradient));
    }
}

#[derive(Clone, Copy, Debug)]
struct LogSoftmaxBackward {
    dim: usize,
}

impl Kernel for LogSoftmaxBackward {
    const NAME: &'static str = "burn_amp::log_softmax_backward";

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, log_sum_exp, grad] = operands.exactly();
        let dtype = x.dtype();
        let (x, grad) = (widen::<B>(x), cast::<B>(grad, wide_dtype(dtype)));
        let probabilities = B::float_exp(B::float_sub(x, log_sum_exp));
        let sum = sum_dim::<B>(grad.clone(), self.dim);
        let dx = B::float_sub(grad, B::float_mul(probabilities, sum));
        [cast::<B>(dx, dtype)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let in_last = |tensor| swap_with_last(tensor, self.dim);
        let [x, log_sum_exp, grad] = operands.exactly().map(in_last);
        Ok([in_last(kernel::log_softmax_backward(x, log_sum_exp, grad))].into())
    }
}
