//! Law: every kernel is its reference, and both are what the host computes in F64, for short and long rows, layouts,
//! NaN and inf.

mod activation;
mod affine;
mod attention;
mod cat;
mod cross_entropy;
mod finite;
mod graph;
mod law;
mod layer_norm;
mod log_softmax;
mod loss_scale;
mod optimizer;
mod own;
mod rows;
mod scalar;
mod sign_mask;
mod softmax;
mod squares;
mod unscale;
mod weight_product;

use burn_amp_tests::prelude::*;

/// The float dtypes in which the device computes.
fn dtypes() -> Vec<DType> {
    [DType::F16, DType::BF16, DType::F32, DType::F64]
        .into_iter()
        .filter(|dtype| Plain::supports_dtype(&here(), *dtype))
        .collect()
}

/// A tensor of `values`, rounded to `dtype`.
fn float<const D: usize>(values: &[f64], shape: [usize; D], dtype: DType) -> FloatTensor<Plain> {
    rows::tensor(values, &shape, dtype)
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
