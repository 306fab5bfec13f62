//! The ops that Burn 0.22 composes of others, and a backend may have whole: no rows of the table.

use burn_backend::ops::UnfoldOptions;
use burn_std::PadMode;

use crate::prelude::*;

use super::{Case, Operand, Output};

/// The cases, with the names of the ops.
pub(super) fn cases<B: Backend>() -> Vec<(&'static str, Case<B>)> {
    let x = || Operand::signed(0, [3, 5]);
    let pad = |mode: PadMode| Case::float([x()], move |[x], _| B::float_pad(x, &[(1, 2)], mode));
    let channels = |seed| Operand::positive(seed, [3]);
    let image = || Operand::signed(0, [2, 3, 4, 4]);
    vec![
        (
            "float_hypot",
            Case::binary([Operand::away_from_zero(0, [3, 5]), x()], B::float_hypot),
        ),
        ("float_pad, with zeros", pad(PadMode::Constant(0.0))),
        ("float_pad, reflecting", pad(PadMode::Reflect)),
        (
            "float_sum_dims",
            Case::float([Operand::signed(0, [2, 3, 4])], |[x], _| {
                B::float_sum_dims(x, &[0, 2])
            }),
        ),
        (
            "float_mask_select",
            Case::float([x()], |[x], to| {
                read_sync(B::float_mask_select(x, to.mask([3, 5])))
            }),
        ),
        (
            "float_topk_with_indices",
            Case::new([x()], |[x], to| {
                let (values, indices) = B::float_topk_with_indices(x, 1, 2, to.int_dtype());
                vec![Output::Float(values), Output::Int(indices)]
            }),
        ),
        (
            "batch_norm",
            Case::float(
                [image(), channels(1), channels(2), channels(3), channels(4)],
                |[x, gamma, beta, mean, variance], _| {
                    B::batch_norm(x, gamma, beta, mean, variance, 1e-5)
                },
            ),
        ),
        (
            "batch_norm_train",
            Case::new(
                [image(), channels(1), channels(2)],
                |[x, gamma, beta], _| {
                    let trained = B::batch_norm_train(x, gamma, beta, 1e-5);
                    vec![Output::Float(trained.output)]
                },
            ),
        ),
        (
            "linear, as burn-dispatch composes it",
            Case::float(
                [
                    Operand::signed(0, [2, 3, 5]),
                    Operand::signed(1, [5, 4]),
                    Operand::signed(2, [4]),
                ],
                |[x, weight, bias], _| {
                    let weight = B::float_reshape(weight, [1, 5, 4].into());
                    let bias = B::float_reshape(bias, [1, 1, 4].into());
                    B::float_add(B::float_matmul(x, weight), bias)
                },
            ),
        ),
        (
            "fold4d",
            Case::float([Operand::signed(0, [1, 8, 9])], |[x], _| {
                let options = UnfoldOptions::new([1, 1], [0, 0], [1, 1]);
                B::fold4d(x, [4, 4], [2, 2], options)
            }),
        ),
    ]
}
