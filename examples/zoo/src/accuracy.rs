//! Accuracy: the share of a batch's targets that logits predict.

use burn::prelude::*;

/// Returns the accuracy of logits `[item, class]` for classes `[item]`.
pub(crate) fn of_classes<B: Backend>(
    logits: Tensor<B, 2>,
    target: Tensor<B, 1, Int>,
) -> Tensor<B, 1> {
    share(logits.argmax(1).squeeze_dim::<1>(1).equal(target))
}

/// Returns the accuracy of logits `[batch, position, token]` for tokens `[batch, position]`, over all positions.
pub(crate) fn of_tokens<B: Backend>(
    logits: Tensor<B, 3>,
    target: Tensor<B, 2, Int>,
) -> Tensor<B, 1> {
    of_classes(logits.flatten(0, 1), target.flatten(0, 1))
}

/// Returns the accuracy of logits for targets of 0 or 1.
pub(crate) fn of_yes_or_no<B: Backend, const D: usize>(
    logits: Tensor<B, D>,
    target: Tensor<B, D, Int>,
) -> Tensor<B, 1> {
    share(logits.greater_elem(0.0).int().equal(target))
}

/// Returns the share of true elements. They are counted as integers, because low precision cannot represent large
/// counts.
fn share<B: Backend, const D: usize>(found: Tensor<B, D, Bool>) -> Tensor<B, 1> {
    let items = found.shape().num_elements() as f64;
    found.int().sum().float() / items
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;

    use super::*;

    fn value(accuracy: Tensor<Flex, 1>) -> f32 {
        accuracy.into_scalar()
    }

    #[test]
    fn of_classes_the_largest_logit_counts() {
        let device = Default::default();
        let logits = Tensor::from_floats([[1.0, 3.0, 2.0], [5.0, 1.0, 4.0]], &device);
        let target = |classes| Tensor::from_ints(classes, &device);
        assert_eq!(value(of_classes(logits.clone(), target([1, 0]))), 1.0);
        assert_eq!(value(of_classes(logits, target([1, 2]))), 0.5);
    }

    #[test]
    fn of_yes_or_no_the_sign_counts() {
        let device = Default::default();
        let logits = Tensor::<Flex, 1>::from_floats([-1.0, 2.0, 0.5, -0.5], &device);
        let target = Tensor::from_ints([0, 1, 1, 1], &device);
        assert_eq!(value(of_yes_or_no(logits, target)), 0.75);
    }
}
