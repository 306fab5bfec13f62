//! The cases of `ModuleOps`, except for convolutions.

use burn_amp_kernels::names;
use burn_backend::ops::{
    AttentionModuleOptions, DeformConv2dBackward, DeformConvOptions, InterpolateMode,
    InterpolateOptions, UnfoldOptions,
};

use crate::prelude::*;

use super::{Case, Operand, Output, Setting};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    let line = || Operand::signed(0, [2, 2, 6]);
    let line_grad = || Operand::signed(1, [2, 2, 3]);
    let image = || Operand::signed(0, [1, 2, 4, 4]);
    let image_grad = || Operand::signed(1, [1, 2, 2, 2]);

    Some(match op {
        Op::embedding => Case::float([Operand::signed(0, [5, 3])], |[weights], to| {
            B::embedding(weights, tokens(to))
        }),
        Op::embedding_backward => Case::float(
            [Operand::signed(0, [5, 3]), Operand::signed(1, [2, 2, 3])],
            |[weights, grad], to| B::embedding_backward(weights, grad, tokens(to)),
        ),

        Op::linear => Case::float(
            [
                Operand::signed(0, [2, 3, 4]),
                Operand::signed(1, [4, 5]),
                Operand::signed(2, [5]),
            ],
            |[x, weight, bias], _| B::linear(x, weight, Some(bias)),
        ),
        Op::linear_x_backward => Case::binary(
            [Operand::signed(0, [4, 5]), Operand::signed(1, [2, 3, 5])],
            B::linear_x_backward,
        ),
        Op::linear_weight_backward => Case::binary(
            [Operand::signed(0, [2, 3, 4]), Operand::signed(1, [2, 3, 5])],
            B::linear_weight_backward,
        ),
        Op::linear_bias_backward => {
            Case::unary(Operand::signed(0, [2, 3, 5]), B::linear_bias_backward)
        }

        Op::deform_conv2d => Case::float(deformed(), |[x, offset, weight, mask, bias], _| {
            B::deform_conv2d(x, offset, weight, Some(mask), Some(bias), deform())
        }),
        Op::deform_conv2d_backward => {
            let [x, offset, weight, mask, bias] = deformed();
            let grad = Operand::signed(5, [1, 3, 3, 3]);
            Case::new(
                [x, offset, weight, mask, bias, grad],
                |[x, offset, weight, mask, bias, grad], _| {
                    let DeformConv2dBackward {
                        x_grad,
                        offset_grad,
                        weight_grad,
                        mask_grad,
                        bias_grad,
                    } = B::deform_conv2d_backward(
                        x,
                        offset,
                        weight,
                        Some(mask),
                        Some(bias),
                        grad,
                        deform(),
                    );
                    [x_grad, offset_grad, weight_grad]
                        .into_iter()
                        .chain(mask_grad)
                        .chain(bias_grad)
                        .map(Output::Float)
                        .collect()
                },
            )
        }
        Op::unfold4d => Case::float([image()], |[x], _| {
            B::unfold4d(x, [2, 2], UnfoldOptions::new([1, 1], [0, 0], [1, 1]))
        }),

        Op::avg_pool1d => Case::float([line()], |[x], _| B::avg_pool1d(x, 2, 2, 0, true, false)),
        Op::avg_pool1d_backward => Case::float([line(), line_grad()], |[x, grad], _| {
            B::avg_pool1d_backward(x, grad, 2, 2, 0, true, false)
        }),
        Op::avg_pool2d => Case::float([image()], |[x], _| {
            B::avg_pool2d(x, [2, 2], [2, 2], [0, 0], true, false)
        }),
        Op::avg_pool2d_backward => Case::float([image(), image_grad()], |[x, grad], _| {
            B::avg_pool2d_backward(x, grad, [2, 2], [2, 2], [0, 0], true, false)
        }),
        Op::adaptive_avg_pool1d => Case::float([line()], |[x], _| B::adaptive_avg_pool1d(x, 3)),
        Op::adaptive_avg_pool1d_backward => {
            Case::binary([line(), line_grad()], B::adaptive_avg_pool1d_backward)
        }
        Op::adaptive_avg_pool2d => {
            Case::float([image()], |[x], _| B::adaptive_avg_pool2d(x, [2, 2]))
        }
        Op::adaptive_avg_pool2d_backward => {
            Case::binary([image(), image_grad()], B::adaptive_avg_pool2d_backward)
        }
        #[cfg(burn_0_22)]
        Op::adaptive_avg_pool3d => Case::float([Operand::signed(0, [1, 2, 4, 4, 4])], |[x], _| {
            B::adaptive_avg_pool3d(x, [2, 2, 2])
        }),
        #[cfg(burn_0_22)]
        Op::adaptive_avg_pool3d_backward => Case::binary(
            [
                Operand::signed(0, [1, 2, 4, 4, 4]),
                Operand::signed(1, [1, 2, 2, 2, 2]),
            ],
            B::adaptive_avg_pool3d_backward,
        ),
        Op::max_pool1d => Case::float([line()], |[x], _| B::max_pool1d(x, 2, 2, 0, 1, false)),
        Op::max_pool1d_with_indices => Case::new([line()], |[x], _| {
            let pooled = names::max_pool1d_with_indices::<B>(x, 2, 2, 0, 1, false);
            vec![Output::Float(pooled.output), Output::Int(pooled.indices)]
        }),
        Op::max_pool1d_with_indices_backward => Case::float(
            [line(), line_grad()],
            |[x, grad]: [FloatTensor<B>; 2], _| {
                let indices =
                    names::max_pool1d_with_indices::<B>(x.clone(), 2, 2, 0, 1, false).indices;
                B::max_pool1d_with_indices_backward(x, 2, 2, 0, 1, false, grad, indices).x_grad
            },
        ),
        Op::max_pool2d => Case::float([image()], |[x], _| {
            B::max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], false)
        }),
        Op::max_pool2d_with_indices => Case::new([image()], |[x], _| {
            let pooled =
                names::max_pool2d_with_indices::<B>(x, [2, 2], [2, 2], [0, 0], [1, 1], false);
            vec![Output::Float(pooled.output), Output::Int(pooled.indices)]
        }),
        Op::max_pool2d_with_indices_backward => Case::float(
            [image(), image_grad()],
            |[x, grad]: [FloatTensor<B>; 2], _| {
                let ([size, stride], [padding, dilation]) = ([[2, 2]; 2], [[0, 0], [1, 1]]);
                let pooled = names::max_pool2d_with_indices::<B>(
                    x.clone(),
                    size,
                    stride,
                    padding,
                    dilation,
                    false,
                );
                B::max_pool2d_with_indices_backward(
                    x,
                    size,
                    stride,
                    padding,
                    dilation,
                    false,
                    grad,
                    pooled.indices,
                )
                .x_grad
            },
        ),
        Op::interpolate => Case::float([image()], |[x], _| {
            B::interpolate(
                x,
                [6, 6],
                InterpolateOptions::new(InterpolateMode::Bilinear),
            )
        }),
        Op::interpolate_backward => Case::float(
            [image(), Operand::signed(1, [1, 2, 6, 6])],
            |[x, grad], _| {
                // The only mode for which every backend under test has a backward pass.
                let options = InterpolateOptions::new(InterpolateMode::Nearest);
                B::interpolate_backward(x, grad, [6, 6], options)
            },
        ),

        Op::attention => Case::float(
            [
                Operand::signed(0, [1, 2, 4, 8]),
                Operand::signed(1, [1, 2, 4, 8]),
                Operand::signed(2, [1, 2, 4, 8]),
                Operand::signed(3, [1, 2, 4, 4]),
            ],
            |[query, key, value, bias], to| {
                let (mask, options) = (to.mask([1, 2, 4, 4]), AttentionModuleOptions::default());
                B::attention(query, key, value, Some(mask), Some(bias), options)
            },
        ),
        Op::layer_norm => Case::float(
            [
                Operand::signed(0, [2, 3, 8]),
                Operand::signed(1, [8]),
                Operand::signed(2, [8]),
            ],
            |[x, gamma, beta], _| B::layer_norm(x, gamma, Some(beta), 1e-5),
        ),
        Op::ctc_loss => Case::float([log_probs()], |[log_probs], to| {
            let [targets, input_lengths, target_lengths] = ctc(to);
            B::ctc_loss(log_probs, targets, input_lengths, target_lengths, 0)
        }),
        Op::ctc_loss_backward => Case::float(
            [log_probs(), Operand::signed(1, [2])],
            |[log_probs, grad], to| {
                let [targets, input_lengths, target_lengths] = ctc(to);
                B::ctc_loss_backward(log_probs, targets, input_lengths, target_lengths, grad, 0)
            },
        ),
        #[cfg(not(burn_0_22))]
        Op::rfft => Case::new([Operand::signed(0, [2, 8])], |[x], _| {
            let (re, im) = B::rfft(x, 1, None);
            vec![Output::Float(re), Output::Float(im)]
        }),
        #[cfg(not(burn_0_22))]
        Op::irfft => Case::float(
            [Operand::signed(0, [2, 5]), Operand::signed(1, [2, 5])],
            |[re, im], _| B::irfft(re, im, 1, None),
        ),
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}

fn tokens<B: Backend>(to: &Setting<B>) -> IntTensor<B> {
    to.ints([2, 2], &[4, 0, 1, 4])
}

/// The operands of a deformable convolution: input, offset, weight, mask and bias.
fn deformed() -> [Operand; 5] {
    [
        Operand::signed(0, [1, 2, 4, 4]),
        Operand::unit(1, [1, 8, 3, 3]),
        Operand::signed(2, [3, 2, 2, 2]),
        Operand::unit(3, [1, 4, 3, 3]),
        Operand::signed(4, [3]),
    ]
}

fn deform() -> DeformConvOptions<2> {
    DeformConvOptions::new([1, 1], [0, 0], [1, 1], 1, 1)
}

/// Log-probabilities of four time steps, two samples and three classes.
fn log_probs() -> Operand {
    Operand::positive(0, [4, 2, 3]).map(|x| -x)
}

/// The int operands of CTC: targets, input lengths and target lengths; class 0 is the blank.
fn ctc<B: Backend>(to: &Setting<B>) -> [IntTensor<B>; 3] {
    [
        to.ints([2, 2], &[1, 2, 2, 1]),
        to.ints([2], &[4, 3]),
        to.ints([2], &[2, 1]),
    ]
}
