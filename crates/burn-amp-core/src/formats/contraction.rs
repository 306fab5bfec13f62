//! The dimensions that products add over, along which blocks lie.

use super::Lines;

/// The lines over which a product adds, and those of the two products of its backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contraction {
    /// The lines of both operands.
    pub result: [Lines; 2],
    /// Of the gradient of each operand the lines of the other operand and those of the gradient of the result.
    pub gradients: [[Lines; 2]; 2],
}

impl Contraction {
    /// The product that an op computes of operands of these shapes, with the shape of its result; `None` for ops that are no
    /// products, and for attention.
    pub fn of(op: &str, [lhs, rhs]: [&[usize]; 2], result: &[usize]) -> Option<Self> {
        let rows = |shape: &[usize]| {
            let last = shape[shape.len() - 1];
            [shape.iter().product::<usize>() / last.max(1), last]
        };
        // The batch, the channels, and all positions.
        let images = |shape: &[usize]| [shape[0], shape[1], shape[2..].iter().product()];
        Some(match op {
            "float_matmul" => {
                let last = lhs.len() - 1;
                Self {
                    result: [Lines::along(lhs, last), Lines::along(rhs, last - 1)],
                    gradients: [
                        [Lines::along(rhs, last), Lines::along(result, last)],
                        [Lines::along(lhs, last - 1), Lines::along(result, last - 1)],
                    ],
                }
            }
            "linear" => {
                let ([count, inputs], [_, outputs]) = (rows(lhs), rows(result));
                Self {
                    result: [Lines([count, inputs, 1]), Lines::along(rhs, 0)],
                    gradients: [
                        [Lines::along(rhs, 1), Lines([count, outputs, 1])],
                        [Lines([1, count, inputs]), Lines([1, count, outputs])],
                    ],
                }
            }
            "conv1d" | "conv2d" | "conv3d" => {
                let ([n, inputs, from], [_, outputs, to]) = (images(lhs), images(result));
                Self {
                    result: [Lines([n, inputs, from]), Lines::along(rhs, 1)],
                    gradients: [
                        [Lines::along(rhs, 0), Lines([n, outputs, to])],
                        [Lines([n * inputs, from, 1]), Lines([n * outputs, to, 1])],
                    ],
                }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_along_the_dimension_that_a_product_adds_over() {
        let product = |op, lhs: &[usize], rhs: &[usize], result: &[usize]| {
            Contraction::of(op, [lhs, rhs], result).unwrap()
        };
        let found = product("float_matmul", &[2, 3, 4], &[2, 4, 5], &[2, 3, 5]);
        assert_eq!(found.result, [Lines([6, 4, 1]), Lines([2, 4, 5])]);
        assert_eq!(found.gradients[0], [Lines([8, 5, 1]), Lines([6, 5, 1])]);
        assert_eq!(found.gradients[1], [Lines([2, 3, 4]), Lines([2, 3, 5])]);
        let found = product("linear", &[2, 3, 4], &[4, 5], &[2, 3, 5]);
        assert_eq!(found.result, [Lines([6, 4, 1]), Lines([1, 4, 5])]);
        assert_eq!(found.gradients[0], [Lines([4, 5, 1]), Lines([6, 5, 1])]);
        assert_eq!(found.gradients[1], [Lines([1, 6, 4]), Lines([1, 6, 5])]);
        let found = product("conv2d", &[2, 3, 8, 8], &[4, 3, 3, 3], &[2, 4, 6, 6]);
        assert_eq!(found.result, [Lines([2, 3, 64]), Lines([4, 3, 9])]);
        assert_eq!(found.gradients[0], [Lines([1, 4, 27]), Lines([2, 4, 36])]);
        assert_eq!(found.gradients[1], [Lines([6, 64, 1]), Lines([8, 36, 1])]);
        assert_eq!(Contraction::of("float_add", [&[1], &[1]], &[1]), None);
    }
}
