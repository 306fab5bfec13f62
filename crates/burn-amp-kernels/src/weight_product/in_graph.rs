//! What the graph has in place of the operands of a product.
//!
//! The node of a product with weights takes the place of the casts of its operands: they have the values of the casts, and the nodes
//! of the tensors that were cast. The product hands each of them its gradient in their dtype: that of the weights it writes in F32
//! anyway.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use burn_backend::FloatDType;

/// What the graph has in place of the operands of a product. By default they are in the graph themselves.
#[derive(Clone, Debug, Default)]
pub struct InGraph {
    /// The dtype of the tensor that was cast to `x`.
    pub x: Option<FloatDType>,
    /// The parameter that was cast to the weights.
    pub weight: Option<Use>,
}

/// A parameter that hears of the backward passes that reach it.
pub trait Reached: fmt::Debug + Send + Sync {
    /// Says that a backward pass has reached a use.
    fn reached(&self);
}

/// A use of a parameter.
#[derive(Clone, Debug)]
pub struct Use {
    parameter: Weak<dyn Reached>,
    /// Whether another op of this forward pass has used the parameter. Then its gradient may be computed
    /// [together](super::together) with those of other uses.
    pub(super) is_further: bool,
}

impl Use {
    /// A use of a parameter, and whether it is a further one in this forward pass.
    pub fn new<T: Reached + 'static>(parameter: &Arc<T>, is_further: bool) -> Self {
        let parameter = Arc::downgrade(parameter);
        Self {
            parameter,
            is_further,
        }
    }

    pub(super) fn reached(&self) {
        if let Some(parameter) = self.parameter.upgrade() {
            parameter.reached();
        }
    }
}
