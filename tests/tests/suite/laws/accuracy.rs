//! Law: the results of each op, in BF16 and F16, are as near to those in F64 as its class allows.

use burn_amp_tests::prelude::*;

use super::drive::*;

/// Ops whose results on the backend under test differ from those of the reference, with the reasons.
const NOT_COMPARED: &[(Op, &str)] = &[
    #[cfg(feature = "cubecl")]
    (Op::float_argtopk, "the reference has none"),
    #[cfg(feature = "cubecl")]
    (Op::ctc_loss_backward, "the reference has none"),
    #[cfg(feature = "cubecl")]
    (
        Op::deform_conv2d_backward,
        "burn-cubecl 0.21.0: the gradients of offset and mask read the columns of the first kernel position only; the \
         reference agrees with finite differences",
    ),
    #[cfg(feature = "cubecl")]
    (
        Op::gelu_backward,
        "the provided method differentiates the tanh approximation, the reference gelu itself",
    ),
];

/// The value that the error of a float result is relative to.
#[derive(Clone, Copy, Debug)]
enum To {
    /// The exact result itself.
    Itself,
    /// The largest of the exact results, because in a single result terms may cancel.
    Largest,
}

/// The allowed error of a float result, in epsilons of the class's dtype.
///
/// Operands are exact in every dtype, so an op that computes in F32 and rounds once is off by half an epsilon.
fn tolerance(op: Op, class: Class) -> (f64, To) {
    if cfg!(feature = "cubecl")
        && let Some(tolerance) = tolerance_on_cubecl(op, class)
    {
        return tolerance;
    }
    match op {
        // Computed in the operands' dtype: two rounded products, as large as 4, cancel to results below 1.
        Op::float_cross => (4.0, To::Largest),
        // The exponentials, their sum and the quotient are rounded.
        Op::softmax | Op::log_softmax | Op::softmin => (2.0, To::Itself),
        // Weighted sums of terms of either sign.
        Op::interpolate | Op::layer_norm | Op::rfft | Op::irfft => (2.0, To::Largest),
        _ if class == Class::Low => (1.0, To::Largest),
        _ => (1.0, To::Itself),
    }
}

/// The allowed error of ops that drivers or kernels compute less exactly than the reference. The bounds are those of
/// Vulkan; CUDA's are tighter.
fn tolerance_on_cubecl(op: Op, class: Class) -> Option<(f64, To)> {
    match op {
        // The Vulkan specification allows 4096 units in the last place for atan and atan2; asin and acos inherit from it.
        Op::float_asin | Op::float_acos | Op::float_atan | Op::float_atan2 => {
            Some((4096.0, To::Itself))
        }
        // It allows 3 + 2|x| for exp and 3 for log; the other ops inherit from these two. CTC adds logarithms at every
        // time step.
        Op::float_exp
        | Op::float_log
        | Op::float_powf
        | Op::float_powi
        | Op::float_powi_scalar
        | Op::float_powi_scalar_impl
        | Op::float_powf_scalar
        | Op::float_powf_scalar_impl
        | Op::float_cosh
        | Op::float_sinh
        | Op::float_tanh
        | Op::float_asinh
        | Op::float_atanh
        | Op::float_erf
        | Op::softmax
        | Op::log_softmax
        | Op::softmin
        | Op::log_sigmoid
        | Op::log_sigmoid_backward
        | Op::ctc_loss => Some((12.0, To::Itself)),
        // Coordinates are computed in the operands' dtype and lie between -1 and 4: they are off by 2 epsilons, and with
        // them the weights of both dimensions, of neighbours that differ by twice the largest. The weights and their
        // products are rounded, too.
        Op::float_grid_sample_2d | Op::deform_conv2d => Some((10.0, To::Largest)),
        // CubeCL's direct convolutions, used where no matrix unit is available, accumulate in the operands' dtype.
        _ if class == Class::Low => Some((4.0, To::Largest)),
        _ => None,
    }
}

fn is_compared(op: Op) -> bool {
    NOT_COMPARED.iter().all(|(not, _)| *not != op)
}

fn assert_near(op: Op, class: Class) {
    let epsilon = match class {
        Class::Full => Precision::F32.epsilon(),
        Class::Low | Class::Internal | Class::Widest | Class::Keep => precision().epsilon(),
    };
    let (tolerance, to) = tolerance(op, class);
    let outputs = read(run_amp(op, |_| true, None).0);
    let exact = read(run_on::<Reference>(op, DType::F64, None));
    for (output, exact) in outputs.iter().zip(&exact) {
        if output.stored.is_none() {
            assert_eq!(output.values, exact.values);
            continue;
        }
        let largest = exact.values.iter().fold(0.0, |max, x| x.abs().max(max));
        for (x, exact) in output.values.iter().zip(&exact.values) {
            let scale = match to {
                To::Itself => exact.abs(),
                To::Largest => largest,
            };
            let off = (x - exact).abs() / epsilon;
            assert!(
                off <= tolerance * scale,
                "{x} for {exact}: {:.1} epsilons off, relative to {to:?}",
                off / scale
            );
        }
    }
}

fn is_near() {
    law(|op, class| {
        if is_compared(op) {
            assert_near(op, class);
        }
    });
}

/// The reference is Flex in F64; but Flex computes `deform_conv2d_backward` and a few activations in F32.
#[test]
fn results_are_as_near_to_f64_as_the_class_lets_them_be() {
    for_each_low_policy!(is_near);
}

fn differs(op: Op) -> bool {
    let class = op.class(precision()).expect("an op with a class");
    catch_unwind(AssertUnwindSafe(|| assert_near(op, class))).is_err()
}

/// In one of the low precisions: BF16 rounds some differences away.
#[test]
fn an_op_is_not_compared_only_if_it_differs() {
    for (op, why) in NOT_COMPARED {
        let mut differ = false;
        for_each_low_policy!(|| differ |= differs(*op));
        assert!(differ, "{op} is near, but: {why}");
    }
}
