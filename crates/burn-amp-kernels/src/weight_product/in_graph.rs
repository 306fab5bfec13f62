//! What the graph has in place of the operands of a product.
//!
//! The node of a product with weights takes the place of the casts of its operands: they have the values of the casts, and the nodes
//! of the tensors that were cast. The product hands each of them its gradient in their dtype: that of the weights it writes in F32
//! anyway.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::FloatDType;

use crate::{AmpBackend, graph::Tracked};

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
    /// The level above which the product is in the graph.
    level: usize,
}

impl Use {
    /// A use of a parameter: whether it is a further one in this forward pass, and the level above which the product is in the graph,
    /// so that a backward pass comes to the uses one after the other.
    pub fn new<T: Reached + 'static>(parameter: &Arc<T>, is_further: bool, level: usize) -> Self {
        let parameter = Arc::downgrade(parameter);
        Self {
            parameter,
            is_further,
            level,
        }
    }

    /// Moves an operand to the level above which the product is. The others may be below.
    pub(super) fn place<B: AmpBackend, C: CheckpointStrategy>(&self, operand: &mut Tracked<B, C>) {
        if operand.node.order >= self.level {
            return;
        }
        let mut node = <Tracked<B, C>>::new(operand.primitive.clone()).node;
        let moved = Arc::get_mut(&mut node).expect("nobody else has a new node");
        moved.id = operand.node.id;
        moved.requirement = operand.node.requirement;
        moved.properties = operand.node.properties.clone();
        moved.order = self.level;
        operand.node = node;
    }

    pub(super) fn reached(&self) {
        if let Some(parameter) = self.parameter.upgrade() {
            parameter.reached();
        }
    }
}
