//! The cases of `FloatTensorOps` that compute new values.

use burn_backend::ops::GridSampleOptions;

use crate::prelude::*;

use super::{Case, Operand, Output};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    let x = || Operand::signed(0, [3, 5]);
    let pair = || [x(), Operand::signed(1, [3, 5])];
    let positive = || Operand::positive(0, [3, 5]);
    let unit = || Operand::unit(0, [3, 5]);
    let divisor = || Operand::away_from_zero(1, [3, 5]);

    Some(match op {
        Op::float_add => Case::binary(pair(), B::float_add),
        Op::float_add_scalar => Case::with_scalar(x(), 0.5, B::float_add_scalar),
        Op::float_sub => Case::binary(pair(), B::float_sub),
        Op::float_sub_scalar => Case::with_scalar(x(), 0.5, B::float_sub_scalar),
        Op::float_mul => Case::binary(pair(), B::float_mul),
        Op::float_mul_scalar => Case::with_scalar(x(), 0.5, B::float_mul_scalar),
        Op::float_div => Case::binary([x(), divisor()], B::float_div),
        Op::float_div_scalar => Case::with_scalar(x(), 0.5, B::float_div_scalar),
        Op::float_remainder => Case::binary([x(), divisor()], B::float_remainder),
        Op::float_remainder_scalar => Case::with_scalar(x(), 0.5, B::float_remainder_scalar),
        Op::float_clamp_min => Case::with_scalar(x(), 0.5, B::float_clamp_min),
        Op::float_clamp_max => Case::with_scalar(x(), 0.5, B::float_clamp_max),
        Op::float_clamp => Case::float([x()], |[x], to| {
            B::float_clamp(x, to.scalar(-0.5), to.scalar(0.5))
        }),
        Op::float_matmul => Case::binary(
            [Operand::signed(0, [2, 3, 8]), Operand::signed(1, [2, 8, 4])],
            B::float_matmul,
        ),
        Op::float_cross => Case::float(
            [Operand::signed(0, [4, 3]), Operand::signed(1, [4, 3])],
            |[x, y], _| B::float_cross(x, y, 1),
        ),
        Op::float_neg => Case::unary(x(), B::float_neg),
        Op::float_recip => Case::unary(divisor(), B::float_recip),

        Op::float_sum => Case::unary(x(), B::float_sum),
        Op::float_sum_dim => Case::along(x(), B::float_sum_dim),
        Op::float_prod => Case::unary(divisor(), B::float_prod),
        Op::float_prod_dim => Case::along(divisor(), B::float_prod_dim),
        Op::float_mean => Case::unary(x(), B::float_mean),
        Op::float_mean_dim => Case::along(x(), B::float_mean_dim),
        Op::float_cumsum => Case::along(x(), B::float_cumsum),
        Op::float_cumprod => Case::along(divisor(), B::float_cumprod),
        Op::float_cummin => Case::along(x(), B::float_cummin),
        Op::float_cummax => Case::along(x(), B::float_cummax),

        Op::float_exp => Case::unary(x(), B::float_exp),
        Op::float_log => Case::unary(positive(), B::float_log),
        Op::float_log1p => Case::unary(positive(), B::float_log1p),
        Op::float_powf => Case::binary([positive(), x()], B::float_powf),
        Op::float_powi => Case::float([divisor()], |[x], to| {
            let exponents: Vec<i64> = (0..15).map(|i| i % 4).collect();
            B::float_powi(x, to.ints([3, 5], &exponents))
        }),
        Op::float_powi_scalar => Case::with_scalar(divisor(), 3.0, B::float_powi_scalar),
        Op::float_powi_scalar_impl => Case::with_scalar(positive(), 5.0, B::float_powi_scalar_impl),
        Op::float_powf_scalar => Case::with_scalar(positive(), 1.5, B::float_powf_scalar),
        Op::float_powf_scalar_impl => Case::with_scalar(positive(), 1.5, B::float_powf_scalar_impl),
        Op::float_sqrt => Case::unary(positive(), B::float_sqrt),
        Op::float_abs => Case::unary(x(), B::float_abs),
        Op::float_cos => Case::unary(x(), B::float_cos),
        Op::float_sin => Case::unary(x(), B::float_sin),
        Op::float_tan => Case::unary(unit(), B::float_tan),
        Op::float_cosh => Case::unary(x(), B::float_cosh),
        Op::float_sinh => Case::unary(x(), B::float_sinh),
        Op::float_tanh => Case::unary(x(), B::float_tanh),
        Op::float_acos => Case::unary(unit(), B::float_acos),
        Op::float_acosh => Case::unary(Operand::above_one([3, 5]), B::float_acosh),
        Op::float_asin => Case::unary(unit(), B::float_asin),
        Op::float_asinh => Case::unary(x(), B::float_asinh),
        Op::float_atan => Case::unary(x(), B::float_atan),
        Op::float_atanh => Case::unary(unit(), B::float_atanh),
        Op::float_atan2 => Case::binary([x(), divisor()], B::float_atan2),
        Op::float_round => Case::unary(x(), B::float_round),
        Op::float_floor => Case::unary(x(), B::float_floor),
        Op::float_ceil => Case::unary(x(), B::float_ceil),
        Op::float_trunc => Case::unary(x(), B::float_trunc),
        Op::float_erf => Case::unary(x(), B::float_erf),
        Op::float_sign => Case::unary(x(), B::float_sign),

        Op::float_max => Case::unary(x(), B::float_max),
        Op::float_max_dim => Case::along(x(), B::float_max_dim),
        Op::float_max_dim_with_indices => Case::new([x()], |[x], to| {
            let (values, indices) = B::float_max_dim_with_indices(x, 1, to.int_dtype());
            vec![Output::Float(values), Output::Int(indices)]
        }),
        Op::float_min => Case::unary(x(), B::float_min),
        Op::float_min_dim => Case::along(x(), B::float_min_dim),
        Op::float_min_dim_with_indices => Case::new([x()], |[x], to| {
            let (values, indices) = B::float_min_dim_with_indices(x, 1, to.int_dtype());
            vec![Output::Float(values), Output::Int(indices)]
        }),
        Op::float_max_abs => Case::unary(x(), B::float_max_abs),
        Op::float_max_abs_dim => Case::along(x(), B::float_max_abs_dim),
        Op::float_argmax => Case::int([x()], |[x], to| B::float_argmax(x, 1, to.int_dtype())),
        Op::float_argmin => Case::int([x()], |[x], to| B::float_argmin(x, 1, to.int_dtype())),
        Op::float_argtopk => Case::int([x()], |[x], to| B::float_argtopk(x, 1, 2, to.int_dtype())),
        Op::float_topk => Case::float([x()], |[x], _| B::float_topk(x, 1, 2)),

        Op::float_equal => Case::compare(B::float_equal),
        Op::float_not_equal => Case::compare(B::float_not_equal),
        Op::float_greater => Case::compare(B::float_greater),
        Op::float_greater_equal => Case::compare(B::float_greater_equal),
        Op::float_lower => Case::compare(B::float_lower),
        Op::float_lower_equal => Case::compare(B::float_lower_equal),
        Op::float_equal_elem => Case::compare_elem(B::float_equal_elem),
        Op::float_not_equal_elem => Case::compare_elem(B::float_not_equal_elem),
        Op::float_greater_elem => Case::compare_elem(B::float_greater_elem),
        Op::float_greater_equal_elem => Case::compare_elem(B::float_greater_equal_elem),
        Op::float_lower_elem => Case::compare_elem(B::float_lower_elem),
        Op::float_lower_equal_elem => Case::compare_elem(B::float_lower_equal_elem),
        Op::float_any => Case::bool([Operand::whole(0, [3, 5])], |[x], to| {
            B::float_any(x, to.bool_dtype())
        }),
        Op::float_any_dim => Case::bool([Operand::whole(0, [3, 5])], |[x], to| {
            B::float_any_dim(x, 1, to.bool_dtype())
        }),
        Op::float_all => Case::bool([Operand::whole(0, [3, 5])], |[x], to| {
            B::float_all(x, to.bool_dtype())
        }),
        Op::float_all_dim => Case::bool([Operand::whole(0, [3, 5])], |[x], to| {
            B::float_all_dim(x, 0, to.bool_dtype())
        }),
        Op::float_is_nan => Case::bool([special()], |[x], to| B::float_is_nan(x, to.bool_dtype())),
        Op::float_is_inf => Case::bool([special()], |[x], to| B::float_is_inf(x, to.bool_dtype())),

        Op::float_grid_sample_2d => Case::float(
            [
                Operand::signed(0, [1, 2, 4, 4]),
                Operand::unit(1, [1, 3, 3, 2]),
            ],
            |[x, grid], _| B::float_grid_sample_2d(x, grid, GridSampleOptions::default()),
        ),
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}

fn special() -> Operand {
    Operand::of([4], &[f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY])
}
