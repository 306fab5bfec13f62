//! Makes a tensor of each kind.

use burn_amp::extend::Kind;
use burn_amp_tests::prelude::*;

fn tensor<B: Backend>(shape: &Shape, value: impl Fn(usize) -> f32) -> FloatTensor<B> {
    let values: Vec<f32> = (0..shape.num_elements()).map(value).collect();
    B::float_from_data(TensorData::new(values, shape.clone()), &here())
}

/// The values of `x`, stored in low precision under a policy that lowers products of matrices.
fn low<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let mut shape = vec![1; x.rank()];
    let width = *x.shape().as_slice().last().expect("a matrix");
    shape[x.rank() - 2..].fill(width);
    let eye = tensor::<B>(&shape.into(), |i| f32::from(i % width == i / width));
    B::float_matmul(x, eye)
}

/// One row of equal numbers, in F32.
fn row<B: Backend>(like: &FloatTensor<B>, value: f32) -> FloatTensor<B> {
    let mut shape = vec![1; like.rank()];
    shape[like.rank() - 1] = *like.shape().as_slice().last().expect("a matrix");
    tensor::<B>(&shape.into(), |_| value)
}

fn times<B: Backend>(x: FloatTensor<B>, factor: f32) -> FloatTensor<B> {
    B::float_mul_scalar(x, factor.into())
}

/// Makes a tensor of a kind from the F32 tensor `x`. As far as the kind allows it, it has the values of `x`, and all
/// arithmetic is exact. `None` if there is no such tensor on `B`, or not of this shape.
pub fn made<B: Backend>(kind: Kind, x: FloatTensor<B>) -> Option<FloatTensor<B>> {
    if x.rank() == 1 {
        let shape = x.shape();
        let matrix = B::float_reshape(x, [shape.num_elements(), 1].into());
        return Some(B::float_reshape(made::<B>(kind, matrix)?, shape));
    }
    let (rank, device) = (x.rank(), B::float_device(&x));
    Some(match kind {
        Kind::Plain => low::<B>(x),
        Kind::Leaf => x,
        // Outside of a graph, made by a backward pass.
        Kind::Parameter | Kind::Gradient | Kind::Pending => return None,
        Kind::ZerosAndOnes => {
            B::seed(&device, 7);
            let half = Distribution::Bernoulli(0.5);
            B::float_random(x.shape(), half, &device, FloatDType::F32)
        }
        Kind::Filled => B::float_full(x.shape(), 1.5.into(), &device, FloatDType::F32),
        Kind::Saturated => B::sigmoid(low::<B>(x)),
        Kind::Concatenated => concatenated::<B>(x)?,
        Kind::Product => B::float_mul(
            low::<B>(times::<B>(x.clone(), 0.5)),
            low::<B>(row_of_twos::<B>(&x)),
        ),
        Kind::View => {
            let swapped = B::float_swap_dims(x, rank - 2, rank - 1);
            B::float_swap_dims(low::<B>(swapped), rank - 2, rank - 1)
        }
        Kind::Reshaped => {
            let (shape, length) = (x.shape(), x.shape().num_elements());
            let row = B::float_slice(B::float_reshape(x, [length].into()), &[(0..length).into()]);
            let halves = times::<B>(row, 0.5);
            times::<B>(B::float_reshape(halves, shape), 2.0)
        }
        Kind::Chain => {
            let twos = row::<B>(&x, 2.0);
            B::float_mul(low::<B>(times::<B>(x, 0.5)), twos)
        }
        Kind::Squares => {
            let halves = row::<B>(&x, 0.5);
            B::float_powi_scalar(B::float_sub(low::<B>(x), halves), 2.into())
        }
        Kind::Sum => {
            let twos = row::<B>(&x, 2.0);
            let chain = B::float_mul(low::<B>(times::<B>(x.clone(), 0.25)), twos);
            B::float_add(chain, times::<B>(x, 0.5))
        }
        Kind::Scaled => times::<B>(low::<B>(times::<B>(x, 0.5)), 2.0),
        Kind::Masked => {
            let mask: Vec<bool> = (0..x.shape().num_elements()).map(|i| i == 0).collect();
            let dtype: BoolDType = get_device_settings::<B>(&device).bool_dtype;
            let mask = TensorData::new(mask, x.shape()).convert_dtype(dtype.into());
            let mask = B::bool_from_data(mask, &device);
            B::float_mask_fill(low::<B>(x), mask, (-1000.0).into())
        }
        Kind::LogSoftmax => B::log_softmax(low::<B>(x), rank - 1),
    })
}

fn row_of_twos<B: Backend>(like: &FloatTensor<B>) -> FloatTensor<B> {
    tensor::<B>(&like.shape(), |_| 2.0)
}

/// The first half stored in low precision, the rest in F32.
fn concatenated<B: Backend>(x: FloatTensor<B>) -> Option<FloatTensor<B>> {
    let shape = x.shape();
    let dim = shape.as_slice().iter().position(|size| *size > 1)?;
    let part = |from: usize, to: usize| {
        let all = (0..shape.num_dims()).map(|at| {
            let range = if at == dim { from..to } else { 0..shape[at] };
            range.into()
        });
        B::float_slice(x.clone(), &all.collect::<Vec<_>>())
    };
    let half = shape[dim].div_ceil(2);
    let parts = vec![low::<B>(part(0, half)), part(half, shape[dim])];
    Some(B::float_cat(parts, dim))
}

#[cfg(not(feature = "cubecl"))]
/// Makes a tensor of a kind that exists outside of a graph only, with the values of `x`. Without loss scaling no gradient
/// has factors.
pub fn made_outside<B: burn_backend::AutodiffBackend>(
    kind: Kind,
    x: TensorData,
) -> Option<FloatTensor<B::InnerBackend>> {
    let leaf = B::float_set_require_grad(B::float_from_data(x.clone(), &here()), true);
    match kind {
        Kind::Parameter => Some(B::inner(leaf)),
        Kind::Gradient | Kind::Pending => {
            let loss = B::float_sum(B::float_mul(leaf.clone(), B::float_from_data(x, &here())));
            B::grad(&leaf, &B::backward(loss))
        }
        _ => None,
    }
}
