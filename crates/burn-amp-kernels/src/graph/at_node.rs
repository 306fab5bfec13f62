//! What waits at a node of a graph for the node's backward pass.

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use burn_autodiff::NodeId;

/// A value that the steps above a node leave for the step of the node, which holds it. They know the node by its id alone.
#[derive(Debug, Default)]
pub(crate) struct AtNode<T> {
    node: OnceLock<NodeId>,
    value: Mutex<T>,
}

/// All values by their nodes.
static ALL: LazyLock<Mutex<HashMap<NodeId, Weak<dyn Any + Send + Sync>>>> =
    LazyLock::new(Mutex::default);

impl<T> AtNode<T> {
    /// Makes the value findable at a node, which is said once, by who makes the node.
    pub(crate) fn wait_at(self: &Arc<Self>, node: NodeId)
    where
        T: Send + 'static,
    {
        let this: Arc<dyn Any + Send + Sync> = self.clone();
        lock(&ALL).insert(node, Arc::downgrade(&this));
        let _ = self.node.set(node);
    }

    /// Returns what waits at a node, if that is a `T`.
    pub(crate) fn find(node: NodeId) -> Option<Arc<Self>>
    where
        T: Send + 'static,
    {
        let found = lock(&ALL).get(&node).and_then(Weak::upgrade);
        found?.downcast().ok()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }
}

impl<T> Drop for AtNode<T> {
    fn drop(&mut self) {
        if let Some(node) = self.node.get() {
            lock(&ALL).remove(node);
        }
    }
}

/// Values are pushed and taken whole, so they are sound after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
