//! The floating-point operations of a call, from the shapes of its operands and its result.

use burn_amp_core::Op;

/// Returns the floating-point operations of a matrix product, a convolution or an attention: two for each product of two
/// numbers that is added up. 0 for any other op.
pub(super) fn flops(op: Op, operands: &[&[usize]], result: &[usize]) -> u64 {
    let elements = |shape: &[usize]| shape.iter().product::<usize>() as u64;
    match (op, operands) {
        (Op::float_matmul | Op::linear, [lhs, ..]) => {
            2 * elements(result) * lhs.last().copied().unwrap_or_default() as u64
        }
        // A weight is `[outputs, inputs / groups, kernel…]`: each result is a sum over all but the first.
        (Op::conv1d | Op::conv2d | Op::conv3d, [_, weight, ..]) => {
            2 * elements(result) * elements(&weight[1..])
        }
        // A weight is `[inputs, outputs / groups, kernel…]`: each number of `x` meets all but the first.
        (Op::conv_transpose1d | Op::conv_transpose2d | Op::conv_transpose3d, [x, weight, ..]) => {
            2 * elements(x) * elements(&weight[1..])
        }
        // Scores and their product with the values, of all heads.
        (Op::attention, [query, key, value, ..]) => match (query, key, value) {
            ([.., queries, width], [.., keys, _], [.., values_width]) => {
                let heads = elements(&query[..query.len() - 2]);
                2 * heads * (queries * keys * (width + values_width)) as u64
            }
            _ => 0,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_product_of_two_numbers_counts_twice() {
        assert_eq!(flops(Op::float_matmul, &[&[2, 3], &[3, 5]], &[2, 5]), 60);
        assert_eq!(flops(Op::linear, &[&[4, 2, 3], &[3, 5]], &[4, 2, 5]), 240);
        // 6 outputs of 2 channels in, kernel of 3.
        assert_eq!(flops(Op::conv1d, &[&[1, 2, 4], &[3, 2, 3]], &[1, 3, 2]), 72);
        assert_eq!(
            flops(Op::conv_transpose1d, &[&[1, 2, 4], &[2, 3, 3]], &[1, 3, 6]),
            144
        );
        // 2 heads, 3 queries, 5 keys, width 4: 2 · 2 · 3 · 5 · (4 + 4).
        let (query, key) = ([1, 2, 3, 4], [1, 2, 5, 4]);
        assert_eq!(flops(Op::attention, &[&query, &key, &key], &query), 480);
        assert_eq!(flops(Op::float_add, &[&[2, 3], &[2, 3]], &[2, 3]), 0);
    }
}
