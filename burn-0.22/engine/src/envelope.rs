use burn_backend::{Backend, BackendTypes};
use burn_std::tensor::container::TensorContainer;

use crate::{
    grads::{GradID, Gradients},
    tensor::AutodiffTensor,
};

/// The place of what is in the envelope, which no node has.
const INSIDE: GradID = GradID::MAX;

impl Gradients {
    /// Makes gradients of something else.
    pub fn enveloping<T: Clone + Send + 'static>(inside: T) -> Self {
        let mut container = TensorContainer::new();
        container.register(INSIDE, inside);
        Self {
            container,
            on_register: None,
        }
    }

    /// Returns what these gradients were made of; `None` for those of a backward pass.
    pub fn enveloped<T: Clone + Send + 'static>(&self) -> Option<T> {
        self.container.get(&INSIDE)
    }
}

/// The same tensor as one of another backend with the same values.
pub fn renamed<A, B>(tensor: AutodiffTensor<A>) -> AutodiffTensor<B>
where
    A: Backend,
    B: BackendTypes<FloatTensorPrimitive = A::FloatTensorPrimitive>,
{
    let AutodiffTensor {
        primitive,
        node,
        rc,
    } = tensor;
    AutodiffTensor {
        primitive,
        node,
        rc,
    }
}
