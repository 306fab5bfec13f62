//! Products of matrices, reductions, and ops along a dimension.

use burn_backend::ops::AttentionModuleOptions;

use super::all::*;
use super::shape::{along, one, product, reduced, resized, same, windows};

table! {
    /// Products of matrices, reductions, and ops along a dimension.
    Reduction, to;
    Matmul [x, y] () product(x, y) => B::float_matmul(x, y);
    Cross [x, y] (dim: usize) (x == y && *x.get(dim)? == 3).then(|| x.clone()) => B::float_cross(x, y, dim);
    Sum [x] () one(x) => B::float_sum(x);
    Mean [x] () one(x) => B::float_mean(x);
    SumDim [x] (dim: usize) reduced(x, dim) => B::float_sum_dim(x, dim);
    MeanDim [x] (dim: usize) reduced(x, dim) => B::float_mean_dim(x, dim);
    ProdDim [x] (dim: usize) reduced(x, dim) => B::float_prod_dim(x, dim);
    Max [x] () one(x) => B::float_max(x);
    Min [x] () one(x) => B::float_min(x);
    MaxAbs [x] () one(x) => B::float_max_abs(x);
    MaxDim [x] (dim: usize) reduced(x, dim) => B::float_max_dim(x, dim);
    MinDim [x] (dim: usize) reduced(x, dim) => B::float_min_dim(x, dim);
    MaxAbsDim [x] (dim: usize) reduced(x, dim) => B::float_max_abs_dim(x, dim);
    CumSum [x] (dim: usize) along(x, dim) => B::float_cumsum(x, dim);
    CumProd [x] (dim: usize) along(x, dim) => B::float_cumprod(x, dim);
    CumMax [x] (dim: usize) along(x, dim) => B::float_cummax(x, dim);
    CumMin [x] (dim: usize) along(x, dim) => B::float_cummin(x, dim);
    Softmax [x] (dim: usize) along(x, dim) => B::softmax(x, dim);
    LogSoftmax [x] (dim: usize) along(x, dim) => B::log_softmax(x, dim);
    Softmin [x] (dim: usize) along(x, dim) => B::softmin(x, dim);
    Sort [x] (dim: usize, descending: bool) along(x, dim) => B::float_sort(x, dim, descending);
    // Burn's autodiff has no backward pass for it.
    TopK [x] (dim: usize, k: usize) (*x.get(dim)? >= k && k > 0).then(|| resized(x, dim, k))? => {
        use burn_backend::ops::FloatTensorOps;
        B::from_inner(B::InnerBackend::float_topk(B::inner(x), dim, k))
    };
    // The value at the index of the largest one.
    GatherArgmax [x, y] (dim: usize) { along(x, dim)?; (x == y).then(|| resized(x, dim, 1))? } => {
        B::float_gather(dim, x, B::float_argmax(y, dim, to.int_dtype()))
    };
    // The indices of the largest values, as numbers.
    ArgmaxAsNumbers [x] (dim: usize) reduced(x, dim) => {
        let dtype = x.dtype().into();
        B::int_into_float(B::float_argmax(x, dim, to.int_dtype()), dtype)
    };
    CountAbove [x] (limit: f64, dim: usize) reduced(x, dim) => {
        let above = B::float_greater_equal_elem(x.clone(), limit.into(), to.bool_dtype());
        B::float_sum_dim(to.ones_where(above, &x), dim)
    };
    // The cross entropy of classes, one for each row.
    CrossEntropy [x] (seed: u64) {
        let last = x.len() - 1;
        (x.len() >= 2 && x[last] > 0).then(|| resized(x, last, 1))?
    } => {
        let mut shape = x.shape().to_vec();
        let dim = shape.len() - 1;
        let classes = std::mem::replace(&mut shape[dim], 1);
        let targets: IntTensor<B> = to.indices(shape, classes, seed);
        B::float_neg(B::float_gather(dim, B::log_softmax(x, dim), targets))
    };
    // The cross entropy of given probabilities.
    SoftCrossEntropy [x, y] (dim: usize) { along(x, dim)?; (x == y).then(|| resized(x, dim, 1))? } => {
        let targets = B::float_detach(B::softmax(y, dim));
        B::float_sum_dim(B::float_mul(B::log_softmax(x, dim), targets), dim)
    };
    WeightedSum [x] (seed: u64) one(x) => {
        let weights = to.noise_like(&x, seed);
        B::float_sum(B::float_mul(x, weights))
    };
    Attention [x, y, z] () (x.len() == 4 && x == y && x == z && !x.contains(&0)).then(|| x.clone()) => {
        B::attention(x, y, z, None, None, AttentionModuleOptions::default())
    };
    CausalAttention [x, y, z] () (x.len() == 4 && x == y && x == z && !x.contains(&0)).then(|| x.clone()) => {
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        B::attention(x, y, z, None, None, options)
    };
    MaxPool1d [x] (size: usize, stride: usize) pooled(x, 3, size, stride) => {
        B::max_pool1d(x, size, stride, 0, 1, false)
    };
    AvgPool1d [x] (size: usize, stride: usize) pooled(x, 3, size, stride) => {
        B::avg_pool1d(x, size, stride, 0, true, false)
    };
    MaxPool2d [x] (size: usize, stride: usize) pooled(x, 4, size, stride) => {
        B::max_pool2d(x, [size, size], [stride, stride], [0, 0], [1, 1], false)
    };
    AvgPool2d [x] (size: usize, stride: usize) pooled(x, 4, size, stride) => {
        B::avg_pool2d(x, [size, size], [stride, stride], [0, 0], true, false)
    };
    AdaptiveAvgPool2d [x] (size: usize) {
        (x.len() == 4 && size > 0 && !x.contains(&0)).then(|| vec![x[0], x[1], size, size])
    } => B::adaptive_avg_pool2d(x, [size, size]);
    // Only where a program's random numbers are Flex's, whatever the backend.
    Dropout [x] (seed: u64, keep: f64) same(x) => {
        let _turn = super::turn();
        B::seed(&to.device, seed);
        let dtype = x.dtype().into();
        let mask = B::float_random(x.shape(), Distribution::Bernoulli(keep), &to.device, dtype);
        B::float_mul_scalar(B::float_mul(x, mask), (1.0 / keep).into())
    };
}

/// The shape of a pooling over the last dimensions of a tensor of rank `rank`.
fn pooled(x: &[usize], rank: usize, size: usize, stride: usize) -> Option<Vec<usize>> {
    (x.len() == rank && !x.contains(&0)).then_some(())?;
    let mut shape = x.to_vec();
    for dim in &mut shape[2..] {
        *dim = windows(*dim, size, stride, 0)?;
    }
    Some(shape)
}
