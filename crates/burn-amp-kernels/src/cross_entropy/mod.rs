//! Cross entropy: the log-probability of one target per row, and its gradient.
//!
//! A cross entropy computes a log-softmax and reads one element of each row. Its gradient with respect to the logits
//! follows from that row alone. Burn's ops build it in two steps: first an F32 tensor of zeros with one number set per
//! row, then the backward pass of log-softmax, which reads that tensor. The kernel does without the tensor.
//!
//! * [`forward`]: `output[target]`, where `output` is the log-softmax of
//!   `x`. The targets have the shape of `x` with 1 as the last dimension. `x[target] - log_sum_exp` would lose digits
//!   where all logits are large: near 10^4, F32 numbers are 10^-3 apart.
//! * [`backward`]: `dx = g (one_hot(target) - exp(x - log_sum_exp))` in the dtype of `x`, which is read once; `dx` is written once.

#[cfg(feature = "cubecl")]
mod kernel;

#[cfg(feature = "cubecl")]
use crate::cube::plan::in_f32;
use crate::{log_softmax, names::scatter_add, prelude::*};

/// Returns the log-probability of one target per row, from the `output` of the log-softmax of `x`.
pub fn forward<B: AmpBackend>(
    output: FloatTensor<B>,
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
) -> FloatTensor<B> {
    let operands = Tensors::from([output, x, log_sum_exp]);
    B::run(CrossEntropyForward, operands.with_ints([targets])).one()
}

/// Computes the gradient of [`forward`] with respect to `x`, in the dtype of `x`.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let operands = Tensors::from([x, log_sum_exp, grad]);
    B::run(CrossEntropyBackward, operands.with_ints([targets])).one()
}

#[derive(Clone, Copy, Debug)]
struct CrossEntropyForward;

impl Kernel for CrossEntropyForward {
    const NAME: &'static str = "burn_amp::log_softmax_at";
    const IS_FUSED: bool = true;

    /// Reads one element per row, not all of `output`.
    fn reads(&self, operands: Tensors<Meta>) -> Tensors<Meta> {
        let log_sum_exp = &operands.floats[2];
        let floats = vec![log_sum_exp.clone(), log_sum_exp.clone()];
        Tensors { floats, ..operands }
    }

    fn reference<B: AmpBackend>(&self, mut operands: TensorsOf<B>) -> TensorsOf<B> {
        let [targets] = exactly(operands.ints);
        let output = operands.floats.swap_remove(0);
        [B::float_gather(output.rank() - 1, output, targets)].into()
    }

    /// The node keeps the operand of the log-softmax as it is stored.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let [targets] = exactly(operands.ints);
        let [output, x, log_sum_exp] = exactly(operands.floats);
        let saved = CrossEntropySaved::<B> {
            x: x.primitive.clone(),
            log_sum_exp: log_sum_exp.primitive,
            targets,
        };
        let output = forward::<B>(
            output.primitive,
            saved.x.clone(),
            saved.log_sum_exp.clone(),
            saved.targets.clone(),
        );
        let node = Recording::<B, C, _, 1>::new([&x], |_| false);
        [node.finish(output, |_| saved)].into()
    }
}

#[derive(Clone, Debug)]
struct CrossEntropySaved<B: AmpBackend> {
    x: FloatTensor<B>,
    log_sum_exp: FloatTensor<B>,
    targets: IntTensor<B>,
}

impl<B: AmpBackend> Node<B> for CrossEntropySaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = pass.gradient();
        let gradient = backward::<B>(self.x, self.log_sum_exp, self.targets, grad);
        pass.register(0, seen::<B>(gradient));
    }
}

#[derive(Clone, Copy, Debug)]
struct CrossEntropyBackward;

impl Kernel for CrossEntropyBackward {
    const NAME: &'static str = "burn_amp::log_softmax_at_backward";

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [targets] = exactly(operands.ints);
        let [x, log_sum_exp, grad] = exactly(operands.floats);
        let (last, dtype) = (x.rank() - 1, wide_dtype(x.dtype()));
        let zeros = B::float_zeros(x.shape(), &device_of::<B>(&x), dtype.into());
        let grad = scatter_add::<B>(last, zeros, targets, cast::<B>(grad, dtype));
        [log_softmax::backward::<B>(x, log_sum_exp, grad, last)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let [targets] = exactly(operands.ints);
        let [x, log_sum_exp, grad] = exactly(operands.floats);
        let dx = kernel::log_softmax_at_backward(x, log_sum_exp, targets, in_f32(grad));
        Ok([dx].into())
    }
}
