//! How ops become nodes of Burn's graph.

mod node;

pub(crate) use node::{
    MOST_OPERANDS, Node, Pass, Recording, Tracked, by_length, record, untracked,
};
