use super::{LayerNorm, LayerNormGradients};
use crate::prelude::*;

/// Computes the layer norm with Burn's ops, and a copy of it in another dtype.
pub fn reference<B: Backend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: Option<FloatTensor<B>>,
    epsilon: f64,
    copy: Option<FloatDType>,
) -> LayerNorm<B> {
    let dtype = x.dtype();
    let x = widen::<B>(x);
    let rank = x.rank();
    let mean = B::float_mean_dim(x.clone(), rank - 1);
    let centered = B::float_sub(x, mean.clone());
    let var = B::float_mean_dim(B::float_mul(centered.clone(), centered.clone()), rank - 1);
    let std = B::float_sqrt(B::float_add_scalar(var, epsilon.into()));
    let inverse_std = B::float_recip(std);
    let normalized = B::float_mul(centered, inverse_std.clone());
    let scaled = B::float_mul(
        normalized,
        as_row::<B>(cast::<B>(gamma, wide_dtype(dtype)), rank),
    );
    let output = match beta {
        Some(beta) => B::float_add(
            scaled,
            as_row::<B>(cast::<B>(beta, wide_dtype(dtype)), rank),
        ),
        None => scaled,
    };
    LayerNorm {
        copy: copy.map(|dtype| cast::<B>(output.clone(), dtype.into())),
        output: cast::<B>(output, dtype),
        mean,
        inverse_std,
    }
}

/// Computes the gradients of all operands.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    gamma: FloatTensor<B>,
    mean: FloatTensor<B>,
    inverse_std: FloatTensor<B>,
    grad: FloatTensor<B>,
) -> LayerNormGradients<B> {
    let dtype = x.dtype();
    let (x, grad) = (widen::<B>(x), cast::<B>(grad, wide_dtype(dtype)));
    let (rank, last) = (x.rank(), x.rank() - 1);
    let normalized = B::float_mul(B::float_sub(x, mean), inverse_std.clone());
    let gamma_grad = sum_rows::<B>(B::float_mul(grad.clone(), normalized.clone()));
    let beta_grad = sum_rows::<B>(grad.clone());

    let grad = B::float_mul(grad, as_row::<B>(cast::<B>(gamma, wide_dtype(dtype)), rank));
    let mean = B::float_mean_dim(grad.clone(), last);
    let along = B::float_mean_dim(B::float_mul(grad.clone(), normalized.clone()), last);
    let x_grad = B::float_sub(B::float_sub(grad, mean), B::float_mul(normalized, along));
    LayerNormGradients {
        x: cast::<B>(B::float_mul(x_grad, inverse_std), dtype),
        gamma: gamma_grad,
        beta: beta_grad,
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
