//! Law: every kernel is its reference, and both are what the host computes in F64, for short and long rows, layouts,
//! NaN and inf.

mod activation;
mod affine;
#[cfg(not(burn_0_22))]
mod attention;
mod cat;
mod convolution;
#[cfg(not(burn_0_22))]
mod cross_entropy;
mod eight_bits;
mod embedding;
mod finite;
mod graph;
mod law;
mod layer_norm;
mod log_softmax;
mod loss_scale;
mod max_pool;
#[cfg(not(burn_0_22))]
mod optimizer;
#[cfg(not(burn_0_22))]
mod own;
mod product;
mod rounded;
mod rows;
mod scalar;
mod sign_mask;
#[cfg(not(burn_0_22))]
mod slice;
mod softmax;
mod squares;
mod unscale;
mod weight_product;

use burn_amp_tests::prelude::*;

/// The float dtypes in which the device computes. Burn 0.22 is tested by way of WGSL, which has no F64.
fn dtypes() -> Vec<DType> {
    let mut dtypes = vec![DType::F16, DType::BF16, DType::F32, DType::F64];
    dtypes.retain(|dtype| Plain::supports_dtype(&here(), *dtype));
    dtypes.retain(|dtype| *dtype != DType::F64 || cfg!(not(burn_0_22)));
    dtypes
}

/// A tensor of `values`, rounded to `dtype`.
fn float<const D: usize>(values: &[f64], shape: [usize; D], dtype: DType) -> FloatTensor<Plain> {
    rows::tensor(values, &shape, dtype)
}

/// Cuts out a part of a matrix.
fn sliced(tensor: FloatTensor<Plain>, ranges: [std::ops::Range<usize>; 2]) -> FloatTensor<Plain> {
    Plain::float_slice(tensor, &ranges.map(Slice::from))
}

/// What most of these tests name.
mod prelude {
    pub use burn_amp_tests::prelude::*;

    pub(super) use super::{
        graph::{InGraph, SHAPE, Tracked},
        law::{self, Device, EXACT, Host, Near, OnLines, assert_lines, places_hold},
        rows::{
            Float, along, assert_near, dtypes, epsilon, last, layouts, noise, noisy, read, slack,
            special_rows, tensor, wide,
        },
    };
}
