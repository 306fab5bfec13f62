//! Layer normalization in mixed precision: reads and writes the operand's dtype, computes in F32.
//!
//! [`forward`]: `x̂ γ + β` over the last dimension, with
//! `x̂ = (x - mean(x)) / sqrt(var(x) + ε)` and the biased variance, as in Burn's `layer_norm`. The output has the dtype
//! of `x`; where that is F32, products read a copy in low precision, which the same kernel writes. The backward pass needs
//! the input and two F32 numbers per row:
//!
//! ```text
//! dx̂ = g γ      dx = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(var + ε)      dγ = Σ g x̂      dβ = Σ g
//! ```
//!
//! The kernels treat rows as those of [`softmax`](crate::softmax) do. The variance is that of the centered elements,
//! which are in registers. The backward kernel computes all gradients from one read of x and g: a team of units works
//! on many rows, one after the other, and keeps its sums for γ and β in registers too. It writes the sums
//! to `[teams, n]` in F32, and a second kernel adds those of all teams. No atomics are used, so the order of additions
//! depends on the shape alone and results are reproducible. Rows of more than 8192 elements (fewer where a cube has
//! less than 512 units) do not leave enough registers for the sums, and use the reference.
//!
//! Bytes per element in F16 or BF16; the last column is the reference, op by op, without Fusion. A team has at least
//! four rows, so its sums add at most 2 bytes per element, which are written and read:
//!
//! | | read | written | reference |
//! |---|---|---|---|
//! | forward | 2 | 2 | 64 |
//! | backward | 4 to 6 | 2 to 4 | 118 |

#[cfg(feature = "cubecl")]
mod backward_kernel;
#[cfg(feature = "cubecl")]
mod kernel;

use crate::{affine::Joint, graph::values, made, prelude::*};

/// The output of a layer norm, and what the backward pass needs in addition to the operands.
#[derive(Debug)]
pub struct LayerNorm<B: Backend> {
    /// Has the shape and dtype of `x`.
    pub output: FloatTensor<B>,
    /// The output in the dtype that was asked for.
    pub copy: Option<FloatTensor<B>>,
    /// The mean of each row, `[…, 1]`, F32.
    pub mean: FloatTensor<B>,
    /// `1 / sqrt(var + ε)` of each row, `[…, 1]`, F32.
    pub inverse_std: FloatTensor<B>,
}

/// Computes a layer norm in mixed precision, and a copy of its output in another dtype.
pub fn forward<B: AmpBackend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: Option<FloatTensor<B>>,
    epsilon: f64,
    copy: Option<FloatDType>,
) -> LayerNorm<B> {
    let op = LayerNormForward { epsilon, copy };
    let results = B::run(op, ([x, gamma], beta).into());
    let ([output, mean, inverse_std], copy) = results.and_maybe();
    LayerNorm {
        output,
        copy,
        mean,
        inverse_std,
    }
}

/// Computes the gradients of [`forward`] with respect to `x`, in the dtype of `x`, and to γ and β: `[n]`, F32.
pub fn backward<B: AmpBackend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> [FloatTensor<B>; 3] {
    let operands = [x, gamma, mean, inverse_std, grad];
    B::run(LayerNormBackward, operands.into()).exactly()
}

#[derive(Clone, Copy, Debug)]
struct LayerNormForward {
    epsilon: f64,
    copy: Option<FloatDType>,
}

impl Kernel for LayerNormForward {
    const NAME: &'static str = "burn_amp::layer_norm";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let x = &operands.floats[0];
        let row = one_per_row(x, x.0.num_dims() - 1);
        let copy = self.copy.map(|dtype| (x.0.clone(), dtype.into()));
        ([x.clone(), row.clone(), row], copy).into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let ([x, gamma], beta) = operands.and_maybe();
        let dtype = x.dtype();
        let x = widen::<B>(x);
        let rank = x.rank();
        let mean = B::float_mean_dim(x.clone(), rank - 1);
        let centered = B::float_sub(x, mean.clone());
        let var = B::float_mean_dim(B::float_mul(centered.clone(), centered.clone()), rank - 1);
        let std = B::float_sqrt(B::float_add_scalar(var, self.epsilon.into()));
        let inverse_std = B::float_recip(std);
        let normalized = B::float_mul(centered, inverse_std.clone());
        let as_row = |parameter| as_row::<B>(cast::<B>(parameter, wide_dtype(dtype)), rank);
        let mut output = B::float_mul(normalized, as_row(gamma));
        if let Some(beta) = beta {
            output = B::float_add(output, as_row(beta));
        }
        let copy = self.copy;
        let copy = copy.map(|dtype| cast::<B>(output.clone(), dtype.into()));
        ([cast::<B>(output, dtype), mean, inverse_std], copy).into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let ([x, gamma], beta) = operands.and_maybe();
        let copy = self.copy.map(Into::into);
        Ok(kernel::layer_norm(x, gamma, beta, self.epsilon, copy).into())
    }

    /// The node keeps the operand as it is stored and two numbers per row. Its backward pass reads the gradient of a copy of
    /// the output, if that is the only one, in the dtype of the copy.
    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let operands = operands.floats;
        let mut results = B::run(self, values::<B, C>(&operands).into()).floats;
        let output = results.remove(0);
        // In the order in which reports have them.
        for other in results.iter().skip(2).chain(&results[..2]) {
            made::float::<B>(other);
        }
        let joint = Joint::<B>::new(&output);
        let saved = LayerNormSaved::<B> {
            gamma: operands[1].primitive.clone(),
            mean: results[0].clone(),
            inverse_std: results[1].clone(),
            joint: joint.clone(),
        };
        let again = move |operands: Vec<FloatTensor<B>>| {
            let without_copy = Self { copy: None, ..self };
            B::run(without_copy, operands.into()).floats.swap_remove(0)
        };
        let output = by_length!(operands, 2 3; N => {
            let operands = std::array::from_fn(|at| &operands[at]);
            let again = move |operands: [FloatTensor<B>; N]| again(operands.into());
            let node = Recording::<B, C, _, N>::computed_again(operands, |at| at == 0, again);
            node.finish(output, |_| saved)
        });
        if output.is_tracked() {
            joint.waits_at(output.node.id);
        }
        let mut all: Vec<_> = results
            .into_iter()
            .map(|other| untracked::<B, C>(other))
            .collect();
        all.insert(0, output);
        all.into()
    }
}

#[derive(Clone, Copy, Debug)]
struct LayerNormBackward;

impl Kernel for LayerNormBackward {
    const NAME: &'static str = "burn_amp::layer_norm_backward";

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let [x, gamma] = [&operands.floats[0], &operands.floats[1]];
        let parameter = (Shape::new([gamma.0.num_elements()]), wide_dtype(x.1));
        [x.clone(), parameter.clone(), parameter].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [x, gamma, mean, inverse_std, grad] = operands.exactly();
        let dtype = x.dtype();
        let (x, grad) = (widen::<B>(x), cast::<B>(grad, wide_dtype(dtype)));
        let (rank, last) = (x.rank(), x.rank() - 1);
        let normalized = B::float_mul(B::float_sub(x, mean), inverse_std.clone());
        let dgamma = sum_rows::<B>(B::float_mul(grad.clone(), normalized.clone()));
        let dbeta = sum_rows::<B>(grad.clone());

        let gamma = as_row::<B>(cast::<B>(gamma, wide_dtype(dtype)), rank);
        let grad = B::float_mul(grad, gamma);
        let mean = B::float_mean_dim(grad.clone(), last);
        let along = B::float_mean_dim(B::float_mul(grad.clone(), normalized.clone()), last);
        let dx = B::float_sub(B::float_sub(grad, mean), B::float_mul(normalized, along));
        let dx = cast::<B>(B::float_mul(dx, inverse_std), dtype);
        [dx, dgamma, dbeta].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let operands = operands.exactly();
        let gradients = backward_kernel::layer_norm_backward(&operands);
        Ok(gradients.ok_or(operands)?.into())
    }
}

/// Reshapes `[n]` to `[1, …, 1, n]`.
fn as_row<B: Backend>(tensor: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let mut dims = vec![1; rank];
    dims[rank - 1] = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from(dims))
}

/// Sums over all dimensions but the last, to `[n]`.
fn sum_rows<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let shape = tensor.shape();
    let n = shape[shape.num_dims() - 1];
    let rows = shape.num_elements() / n.max(1);
    let sum = B::float_sum_dim(B::float_reshape(tensor, Shape::new([rows, n])), 0);
    B::float_reshape(sum, Shape::new([n]))
}

/// What a layer norm saves for its backward pass, besides `x`.
#[derive(Clone, Debug)]
struct LayerNormSaved<B: AmpBackend> {
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
    joint: Joint<B>,
}

impl<B: AmpBackend> Node<B> for LayerNormSaved<B> {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let grad = self.joint.gradient(&mut pass);
        let x = pass.operand(0).expect("the operand is read");
        let dtype = self.gamma.dtype();
        let [x, gamma, beta] = backward::<B>(x, self.gamma, self.mean, self.inverse_std, grad);
        let gradients = [x, cast::<B>(gamma, dtype), cast::<B>(beta, dtype)];
        for (at, gradient) in gradients.into_iter().enumerate() {
            if pass.parent(at).is_some() {
                pass.register(at, seen::<B>(gradient));
            }
        }
    }
}
