//! Law: casts follow the policy, the backward pass uses the dtypes of the forward pass, gradients return to F32, and
//! each leaf (a tensor that requires a gradient) is checked once. The tests compare complete lists of the ops that
//! reach the plain backend.

use burn::tensor::{module::conv2d, ops::ConvOptions};
use burn_amp_tests::{
    prelude::*,
    trace::{Trace, calls},
};

type B = burn_amp::Autodiff<burn_amp::Amp<Trace<Plain>, InF16>>;

fn ones<const D: usize>(shape: [usize; D]) -> Tensor<B, D> {
    Tensor::ones(shape, &here())
}

/// Formats one call per line: the op and the dtypes of its float operands, for a cast the dtypes before and after.
fn listing(f: impl FnOnce()) -> String {
    calls(f)
        .into_iter()
        .map(|(op, dtypes)| {
            let dtypes: Vec<_> = dtypes.iter().map(|dtype| format!("{dtype:?}")).collect();
            format!("{op} {}\n", dtypes.join(" "))
        })
        .collect()
}

fn assert_listing(actual: String, expected: &str) {
    let expected: String = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(actual, expected, "actual listing:\n{actual}");
}

#[test]
fn matmul_runs_low_forward_and_backward() {
    let (x, weight) = (ones([2, 2]), ones([2, 2]).require_grad());
    let used = weight.clone();
    let actual = listing(|| {
        x.matmul(used).sum().backward();
    });
    assert_listing(
        actual,
        "
        float_cast F32 F16
        float_cast F32 F16
        float_matmul F16 F16
        float_cast F16 F32
        float_sum F32
        float_mul_scalar F32
        float_mul_scalar F32
        float_reshape F32
        float_mul F32 F32
        float_cast F32 F16
        float_transpose F16
        float_matmul F16 F16
        float_cast F16 F32
        float_abs F32
        float_lower_equal_elem F32
        ",
    );
}

#[test]
fn a_softmax_that_is_summed_is_computed_in_f32_for_the_sum() {
    let (x, weight) = (ones([2, 2]), ones([2, 2]).require_grad());
    let used = weight.clone();
    let actual = listing(|| {
        softmax(x.matmul(used), 1).sum().backward();
    });
    assert_listing(
        actual,
        "
        float_cast F32 F16
        float_cast F32 F16
        float_matmul F16 F16
        float_cast F16 F32
        softmax F32
        float_cast F32 F16
        float_cast F16 F32
        softmax F32
        float_sum F32
        float_mul_scalar F32
        float_mul_scalar F32
        float_reshape F32
        float_mul F32 F32
        float_mul F32 F32
        float_sum_dim F32
        float_reshape F32
        float_sum_dim F32
        float_equal_elem F32
        float_mask_fill F32
        float_div F32 F32
        float_sub F32 F32
        float_mul F32 F32
        float_cast F32 F16
        float_transpose F16
        float_matmul F16 F16
        float_cast F16 F32
        float_abs F32
        float_lower_equal_elem F32
        ",
    );
}

#[test]
fn layer_norm_is_f32_between_low_operands_and_results_forward_and_backward() {
    let (x, weight) = (ones([2, 2]), ones([2, 2]).require_grad());
    let norm = LayerNormConfig::new(2).init::<B>(&here());
    let used = weight.clone();
    let actual = listing(|| {
        norm.forward(x.matmul(used)).sum().backward();
    });
    assert_listing(
        actual,
        "
        float_cast F32 F16
        float_cast F32 F16
        float_matmul F16 F16
        float_cast F16 F32
        float_mean_dim F32
        float_sub F32 F32
        float_mul F32 F32
        float_mean_dim F32
        float_add_scalar F32
        float_sqrt F32
        float_recip F32
        float_mul F32 F32
        float_reshape F32
        float_mul F32 F32
        float_reshape F32
        float_add F32 F32
        float_cast F32 F16
        float_cast F16 F32
        float_sum F32
        float_mul_scalar F32
        float_mul_scalar F32
        float_reshape F32
        float_mul F32 F32
        float_cast F16 F32
        float_sub F32 F32
        float_mul F32 F32
        float_mul F32 F32
        float_reshape F32
        float_sum_dim F32
        float_reshape F32
        float_reshape F32
        float_sum_dim F32
        float_reshape F32
        float_reshape F32
        float_mul F32 F32
        float_mean_dim F32
        float_mul F32 F32
        float_mean_dim F32
        float_sub F32 F32
        float_mul F32 F32
        float_sub F32 F32
        float_mul F32 F32
        float_cast F32 F16
        float_transpose F16
        float_matmul F16 F16
        float_cast F16 F32
        float_abs F32
        float_lower_equal_elem F32
        float_abs F32
        float_lower_equal_elem F32
        float_abs F32
        float_lower_equal_elem F32
        float_cat F32 F32 F32
        ",
    );
}

#[test]
fn convolution_runs_low_forward_and_backward() {
    let (x, weight) = (ones([1, 1, 3, 3]), ones([1, 1, 2, 2]).require_grad());
    let bias = ones([1]).require_grad();
    let (used, used_bias) = (weight.clone(), bias.clone());
    let actual = listing(|| {
        let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
        conv2d(x, used, Some(used_bias), options).sum().backward();
    });
    assert_listing(
        actual,
        "
        float_cast F32 F16
        float_cast F32 F16
        float_cast F32 F16
        conv2d F16 F16 F16
        float_cast F16 F32
        float_sum F32
        float_mul_scalar F32
        float_mul_scalar F32
        float_reshape F32
        float_mul F32 F32
        float_cast F32 F16
        conv2d_bias_backward F16 F16 F16
        float_cast F16 F32
        conv2d_weight_backward F16 F16 F16
        float_cast F16 F32
        float_abs F32
        float_lower_equal_elem F32
        float_abs F32
        float_lower_equal_elem F32
        float_cat F32 F32
        ",
    );
}
