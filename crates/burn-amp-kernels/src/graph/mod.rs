//! Ops as nodes of Burn's graph. Nothing here knows an op.
//!
//! * `node`: the node of any op
//! * `at_node`: what waits at a node for its backward pass
//! * `autodiff`: Burn's `Autodiff` as a backend that runs ops

mod at_node;
mod autodiff;
mod node;

pub(crate) use at_node::AtNode;
pub(crate) use node::{
    MOST_OPERANDS, Node, Pass, Recording, Tracked, by_length, record, untracked,
};
