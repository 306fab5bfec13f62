//! What is known at a node of a graph, by those who know its id alone.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
};

use burn_autodiff::NodeId;

/// A value that is found by the id of a node: what the steps above a node leave for the step of the node, for instance.
#[derive(Debug, Default)]
pub(crate) struct AtNode<T: 'static> {
    nodes: Mutex<Vec<NodeId>>,
    value: Mutex<T>,
}

/// What is known at all nodes.
static ALL: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct All {
    /// The values by their nodes and types.
    values: HashMap<(NodeId, TypeId), Weak<dyn Any + Send + Sync>>,
    /// The nodes at which everything is known that is known at another one.
    same: HashMap<NodeId, NodeId>,
}

impl<T> From<T> for AtNode<T> {
    fn from(value: T) -> Self {
        Self {
            nodes: Mutex::default(),
            value: value.into(),
        }
    }
}

impl<T> AtNode<T> {
    /// Makes the value findable at a node.
    pub(crate) fn wait_at(self: &Arc<Self>, node: NodeId)
    where
        T: Send + 'static,
    {
        let mut nodes = lock(&self.nodes);
        if !nodes.contains(&node) {
            nodes.push(node);
            let this: Arc<dyn Any + Send + Sync> = self.clone();
            let key = (node, TypeId::of::<T>());
            lock(&ALL).values.insert(key, Arc::downgrade(&this));
        }
    }

    /// Returns the `T` at a node, if there is one.
    pub(crate) fn find(node: NodeId) -> Option<Arc<Self>>
    where
        T: Send + 'static,
    {
        let all = lock(&ALL);
        let node = all.same.get(&node).copied().unwrap_or(node);
        let found = all.values.get(&(node, TypeId::of::<T>()));
        let found = found.and_then(Weak::upgrade);
        // What is dropped here must not find the lock taken.
        drop(all);
        found?.downcast().ok()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }
}

impl<T> Drop for AtNode<T> {
    fn drop(&mut self) {
        let mut all = lock(&ALL);
        for node in lock(&self.nodes).drain(..) {
            all.values.remove(&(node, TypeId::of::<T>()));
        }
    }
}

/// While it lives, everything that is known at one node is known at another one.
#[derive(Debug)]
pub(crate) struct SameNode(NodeId);

impl SameNode {
    /// Makes known at `node` what is known at `other`.
    pub(crate) fn new(node: NodeId, other: NodeId) -> Self {
        let mut all = lock(&ALL);
        let other = all.same.get(&other).copied().unwrap_or(other);
        all.same.insert(node, other);
        Self(node)
    }
}

impl Drop for SameNode {
    fn drop(&mut self) {
        lock(&ALL).same.remove(&self.0);
    }
}

/// Values are pushed and taken whole, so they are sound after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
