//! The cases of `ModuleOps` that are convolutions in one, two or three dimensions, or their backward passes.

use burn_backend::ops::{ConvOptions, ConvTransposeOptions};

use crate::prelude::*;

use super::{Case, Operand};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    Some(match op {
        Op::conv1d => Case::float(with_bias(conv1d()), |[x, weight, bias], _| {
            B::conv1d(x, weight, Some(bias), strided())
        }),
        Op::conv1d_x_backward => Case::float(conv1d(), |[x, weight, grad], _| {
            B::conv1d_x_backward(x, weight, grad, strided())
        }),
        Op::conv1d_weight_backward => Case::float(conv1d(), |[x, weight, grad], _| {
            B::conv1d_weight_backward(x, weight, grad, strided())
        }),
        Op::conv1d_bias_backward => Case::float(for_bias(conv1d()), |[x, bias, grad], _| {
            B::conv1d_bias_backward(x, bias, grad)
        }),
        Op::conv2d => Case::float(with_bias(conv2d()), |[x, weight, bias], _| {
            B::conv2d(x, weight, Some(bias), strided())
        }),
        Op::conv2d_x_backward => Case::float(conv2d(), |[x, weight, grad], _| {
            B::conv2d_x_backward(x, weight, grad, strided())
        }),
        Op::conv2d_weight_backward => Case::float(conv2d(), |[x, weight, grad], _| {
            B::conv2d_weight_backward(x, weight, grad, strided())
        }),
        Op::conv2d_bias_backward => Case::float(for_bias(conv2d()), |[x, bias, grad], _| {
            B::conv2d_bias_backward(x, bias, grad)
        }),
        Op::conv3d => Case::float(with_bias(conv3d()), |[x, weight, bias], _| {
            B::conv3d(x, weight, Some(bias), strided())
        }),
        Op::conv3d_x_backward => Case::float(conv3d(), |[x, weight, grad], _| {
            B::conv3d_x_backward(x, weight, grad, strided())
        }),
        Op::conv3d_weight_backward => Case::float(conv3d(), |[x, weight, grad], _| {
            B::conv3d_weight_backward(x, weight, grad, strided())
        }),
        Op::conv3d_bias_backward => Case::float(for_bias(conv3d()), |[x, bias, grad], _| {
            B::conv3d_bias_backward(x, bias, grad)
        }),

        Op::conv_transpose1d => Case::float(with_bias(transposed1d()), |[x, weight, bias], _| {
            B::conv_transpose1d(x, weight, Some(bias), spread())
        }),
        Op::conv_transpose1d_x_backward => {
            Case::float(for_x(transposed1d()), |[weight, grad], _| {
                B::conv_transpose1d_x_backward(weight, grad, spread())
            })
        }
        Op::conv_transpose1d_weight_backward => {
            Case::float(transposed1d(), |[x, weight, grad], _| {
                B::conv_transpose1d_weight_backward(x, weight, grad, spread())
            })
        }
        Op::conv_transpose1d_bias_backward => {
            Case::float(for_bias(transposed1d()), |[x, bias, grad], _| {
                B::conv_transpose1d_bias_backward(x, bias, grad)
            })
        }
        Op::conv_transpose2d => Case::float(with_bias(transposed2d()), |[x, weight, bias], _| {
            B::conv_transpose2d(x, weight, Some(bias), spread())
        }),
        Op::conv_transpose2d_x_backward => {
            Case::float(for_x(transposed2d()), |[weight, grad], _| {
                B::conv_transpose2d_x_backward(weight, grad, spread())
            })
        }
        Op::conv_transpose2d_weight_backward => {
            Case::float(transposed2d(), |[x, weight, grad], _| {
                B::conv_transpose2d_weight_backward(x, weight, grad, spread())
            })
        }
        Op::conv_transpose2d_bias_backward => {
            Case::float(for_bias(transposed2d()), |[x, bias, grad], _| {
                B::conv_transpose2d_bias_backward(x, bias, grad)
            })
        }
        Op::conv_transpose3d => Case::float(with_bias(transposed3d()), |[x, weight, bias], _| {
            B::conv_transpose3d(x, weight, Some(bias), spread())
        }),
        Op::conv_transpose3d_x_backward => {
            Case::float(for_x(transposed3d()), |[weight, grad], _| {
                B::conv_transpose3d_x_backward(weight, grad, spread())
            })
        }
        Op::conv_transpose3d_weight_backward => {
            Case::float(transposed3d(), |[x, weight, grad], _| {
                B::conv_transpose3d_weight_backward(x, weight, grad, spread())
            })
        }
        Op::conv_transpose3d_bias_backward => {
            Case::float(for_bias(transposed3d()), |[x, bias, grad], _| {
                B::conv_transpose3d_bias_backward(x, bias, grad)
            })
        }
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}

/// Options under which an output is half as long as its input, rounded up.
fn strided<const N: usize>() -> ConvOptions<N> {
    ConvOptions::new([2; N], [1; N], [1; N], 1)
}

/// Options under which an output is twice as long as its input.
fn spread<const N: usize>() -> ConvTransposeOptions<N> {
    ConvTransposeOptions::new([2; N], [1; N], [1; N], [1; N], 1)
}

// The operands: input, weight and gradient of the output.

fn conv1d() -> [Operand; 3] {
    [
        Operand::signed(0, [2, 4, 6]),
        Operand::signed(1, [CHANNELS, 4, 3]),
        Operand::signed(2, [2, CHANNELS, 3]),
    ]
}

fn conv2d() -> [Operand; 3] {
    [
        Operand::signed(0, [1, 2, 5, 5]),
        Operand::signed(1, [CHANNELS, 2, 3, 3]),
        Operand::signed(2, [1, CHANNELS, 3, 3]),
    ]
}

fn conv3d() -> [Operand; 3] {
    [
        Operand::signed(0, [1, 2, 3, 3, 3]),
        Operand::signed(1, [CHANNELS, 2, 3, 3, 3]),
        Operand::signed(2, [1, CHANNELS, 2, 2, 2]),
    ]
}

fn transposed1d() -> [Operand; 3] {
    [
        Operand::signed(0, [1, 2, 4]),
        Operand::signed(1, [2, CHANNELS, 3]),
        Operand::signed(2, [1, CHANNELS, 8]),
    ]
}

fn transposed2d() -> [Operand; 3] {
    [
        Operand::signed(0, [1, 2, 3, 3]),
        Operand::signed(1, [2, CHANNELS, 3, 3]),
        Operand::signed(2, [1, CHANNELS, 6, 6]),
    ]
}

fn transposed3d() -> [Operand; 3] {
    [
        Operand::signed(0, [1, 2, 2, 2, 2]),
        Operand::signed(1, [2, CHANNELS, 3, 3, 3]),
        Operand::signed(2, [1, CHANNELS, 4, 4, 4]),
    ]
}

/// The number of output channels.
const CHANNELS: usize = 3;

fn bias() -> Operand {
    Operand::signed(3, [CHANNELS])
}

fn with_bias([x, weight, _]: [Operand; 3]) -> [Operand; 3] {
    [x, weight, bias()]
}

fn for_bias([x, _, grad]: [Operand; 3]) -> [Operand; 3] {
    [x, bias(), grad]
}

fn for_x([_, weight, grad]: [Operand; 3]) -> [Operand; 2] {
    [weight, grad]
}
