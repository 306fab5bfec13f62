//! The cases of `FloatTensorOps` that move, select or replace values.

use crate::prelude::*;

use super::{Case, Operand, Output};

pub(super) fn case<B: Backend>(op: Op) -> Option<Case<B>> {
    let x = || Operand::signed(0, [3, 5]);
    let y = || Operand::signed(1, [3, 5]);

    Some(match op {
        Op::float_into_int => Case::int([x()], |[x], to| B::float_into_int(x, to.int_dtype())),
        Op::float_repeat_dim => Case::float([x()], |[x], _| B::float_repeat_dim(x, 1, 2)),
        Op::float_transpose => Case::unary(x(), B::float_transpose),
        Op::float_swap_dims => Case::float([x()], |[x], _| B::float_swap_dims(x, 0, 1)),
        Op::float_permute => Case::float([Operand::signed(0, [2, 3, 4])], |[x], _| {
            B::float_permute(x, &[2, 0, 1])
        }),
        Op::float_flip => Case::float([x()], |[x], _| B::float_flip(x, &[1])),
        Op::float_reshape => Case::float([x()], |[x], _| B::float_reshape(x, [5, 3].into())),
        Op::float_expand => Case::float([Operand::signed(0, [1, 5])], |[x], _| {
            B::float_expand(x, [3, 5].into())
        }),
        Op::float_slice => Case::float([x()], |[x], _| B::float_slice(x, &part())),
        Op::float_slice_assign => {
            Case::float([x(), Operand::signed(1, [2, 3])], |[x, value], _| {
                B::float_slice_assign(x, &part(), value)
            })
        }
        Op::float_unfold => Case::float([x()], |[x], _| B::float_unfold(x, 1, 3, 2)),
        Op::float_cat => Case::float([x(), y()], |[x, y], _| B::float_cat(vec![x, y], 1)),

        Op::float_gather => Case::float([x()], |[x], to| {
            B::float_gather(1, x, to.ints([3, 2], &[4, 0, 1, 1, 2, 3]))
        }),
        #[cfg(not(burn_0_22))]
        Op::float_scatter_add => {
            Case::float([x(), Operand::signed(1, [3, 2])], |[x, value], to| {
                B::float_scatter_add(1, x, to.ints([3, 2], &[4, 0, 1, 1, 2, 3]), value)
            })
        }
        #[cfg(burn_0_22)]
        Op::float_scatter => Case::float([x(), Operand::signed(1, [3, 2])], |[x, value], to| {
            let indices = to.ints([3, 2], &[4, 0, 1, 1, 2, 3]);
            B::float_scatter(1, x, indices, value, IndexingUpdateOp::Add)
        }),
        Op::float_gather_nd => Case::float([x()], |[x], to| {
            B::float_gather_nd(x, to.ints([2, 2], &[2, 4, 0, 1]))
        }),
        Op::float_scatter_nd => Case::float([x(), Operand::signed(1, [2, 5])], |[x, value], to| {
            B::float_scatter_nd(x, to.ints([2, 1], &[2, 0]), value, IndexingUpdateOp::Add)
        }),
        Op::float_select => Case::float([x()], |[x], to| {
            B::float_select(x, 0, to.ints([4], &[2, 0, 2, 1]))
        }),
        #[cfg(burn_0_22)]
        Op::float_select_assign => {
            Case::float([x(), Operand::signed(1, [2, 5])], |[x, value], to| {
                let indices = to.ints([2], &[2, 0]);
                B::float_select_assign(x, 0, indices, value, IndexingUpdateOp::Add)
            })
        }
        #[cfg(not(burn_0_22))]
        Op::float_select_add => Case::float([x(), Operand::signed(1, [2, 5])], |[x, value], to| {
            B::float_select_add(x, 0, to.ints([2], &[2, 0]), value)
        }),

        Op::float_mask_where => Case::float([x(), y()], |[x, y], to| {
            B::float_mask_where(x, to.mask([3, 5]), y)
        }),
        Op::float_mask_fill => Case::float([x()], |[x], to| {
            B::float_mask_fill(x, to.mask([3, 5]), to.scalar(0.5))
        }),

        Op::float_sort => Case::float([x()], |[x], _| B::float_sort(x, 1, true)),
        Op::float_argsort => Case::int([x()], |[x], to| {
            B::float_argsort(x, 1, false, to.int_dtype())
        }),
        Op::float_sort_with_indices => Case::new([x()], |[x], to| {
            let (values, indices) = B::float_sort_with_indices(x, 1, false, to.int_dtype());
            vec![Output::Float(values), Output::Int(indices)]
        }),
        // Ops that the other files cover, and ops without a class.
        _ => return None,
    })
}

/// A matrix of two rows and three columns.
fn part() -> [Slice; 2] {
    [Slice::new(1, None, 1), Slice::new(0, Some(3), 1)]
}
