//! Watches the calls of ops, for [`diagnose`](crate::diagnose). While nobody watches, a call has one pointer more, which
//! is null.

use std::sync::Arc;

use burn_amp_core::{
    Casts, Class, Op, Operands, Precision,
    report::{Sample, Why},
};
use burn_amp_kernels::{
    AmpBackend,
    made::{self, Made, Memory},
};
use burn_backend::{
    Scalar, TensorMetadata,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
use parking_lot::{Mutex, RwLock};

use super::{
    callee::Callee,
    locate::{Search, Searched},
    sample, shadow,
};
use crate::{
    graph::{Graph, Probe},
    precision,
    tensor::{AmpTensor, Reader, Recipe, Role},
    watching,
};

/// Receives the calls of ops on all threads.
pub(crate) trait Watcher: Send + Sync {
    /// Called when a call has ended, on the stack of its caller.
    fn call(&self, call: &WatchedCall);

    /// Called when a backward pass begins.
    fn backward_begins(&self) {}
}

/// A call of an op, as it was seen.
#[derive(Debug)]
pub(crate) struct WatchedCall {
    /// The op; `None` if it is not in the table.
    pub(crate) op: Option<Op>,
    /// The float operands as they were stored before the call.
    pub(crate) operands: Vec<Tensor>,
    /// The casts of operands and results.
    pub(crate) casts: Vec<Cast>,
    pub(crate) why: Why,
    /// Whether an operand is the rounded result of a saturating op.
    pub(crate) reads_rounded: bool,
    pub(crate) computed_in: Option<Precision>,
    pub(crate) result: Option<Tensor>,
    /// Whether the result waits for its readers: the call itself has computed nothing.
    pub(crate) waits: bool,
    /// The tensors that the call made, if it records a graph and a report is being recorded.
    pub(crate) made: Vec<Made>,
}

/// The dtype and the shape of a float tensor.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) dtype: Precision,
    pub(crate) shape: Vec<usize>,
}

/// A cast of an operand or a result.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) from: Precision,
    pub(crate) to: Precision,
    pub(crate) elements: usize,
    /// Whether another use had made it before.
    pub(crate) shared: bool,
    /// Whether the tensor repeats the values of a smaller one.
    pub(crate) expanded: bool,
    /// What became of a sample of the values.
    pub(crate) sample: Sample,
}

static WATCHERS: RwLock<Vec<Arc<dyn Watcher>>> = RwLock::new(Vec::new());

/// Adds a watcher.
pub(crate) fn add(watcher: Arc<dyn Watcher>) {
    WATCHERS.write().push(watcher);
    watching::begin();
}

/// Removes a watcher.
pub(crate) fn remove(watcher: &Arc<dyn Watcher>) {
    WATCHERS
        .write()
        .retain(|other| !Arc::ptr_eq(other, watcher));
    watching::end();
}

/// What is seen of one call; nothing, unless the call is watched.
pub(super) struct Watch(Option<Box<Mutex<Seen>>>);

/// What was seen of a call so far.
struct Seen {
    call: WatchedCall,
    /// The memory of the operands, of which results may be views.
    memory: Vec<Memory>,
    /// Whether all operands are parameters outside a graph.
    only_parameters: bool,
    /// The search for an overflow, before the call is decided and after.
    search: Option<Search>,
    searched: Option<Arc<Searched>>,
}

impl Watch {
    /// Begins to watch a call, if there are watchers.
    #[inline]
    pub(super) fn begin(callee: Callee) -> Self {
        if watching::is_on() {
            Self::begun(callee)
        } else {
            Self(None)
        }
    }

    #[cold]
    fn begun(callee: Callee) -> Self {
        if shadow::is_reference() {
            return Self(None);
        }
        let call = WatchedCall {
            op: callee.op(),
            operands: Vec::new(),
            casts: Vec::new(),
            why: Why::Operands,
            reads_rounded: false,
            computed_in: None,
            result: None,
            waits: false,
            made: Vec::new(),
        };
        Self(Some(Box::new(Mutex::new(Seen {
            call,
            memory: Vec::new(),
            only_parameters: true,
            search: None,
            searched: None,
        }))))
    }

    /// Whether the call is watched.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sees an operand.
    #[inline]
    pub(super) fn operand<B: AmpBackend, G: Graph<B>>(&self, operand: &AmpTensor<B, G>) {
        if let Some(seen) = &self.0 {
            let mut seen = seen.lock();
            if seen.search.is_none() {
                seen.search = Search::on(operand);
            }
            if let Some(search) = &mut seen.search {
                search.operand(operand);
            }
            seen.call.operands.push(Tensor::seen(operand));
            seen.memory.extend(operand.memory());
            seen.call.reads_rounded |= operand.recipe().is_some_and(Recipe::is_rounded);
            seen.only_parameters &= !G::RECORDS && matches!(operand.role, Role::Parameter(_));
        }
    }

    /// Sees an int operand.
    #[inline]
    pub(super) fn int_operand<B: AmpBackend>(&self, operand: &IntTensor<B>) {
        if let Some(seen) = &self.0 {
            seen.lock().memory.extend(B::int_memory(operand));
        }
    }

    /// Sees a bool operand.
    #[inline]
    pub(super) fn bool_operand<B: AmpBackend>(&self, operand: &BoolTensor<B>) {
        if let Some(seen) = &self.0 {
            seen.lock().memory.extend(B::bool_memory(operand));
        }
    }

    /// Sees a scalar operand, after the float operands.
    #[inline]
    pub(super) fn scalar(&self, value: Scalar) {
        if let Some(seen) = &self.0
            && let Some(search) = &mut seen.lock().search
        {
            search.scalar(value.elem());
        }
    }

    /// Sees what was decided. `full_precision` says whether the call is in a scope of full precision, `class` is that of
    /// the op if the policy lowers anything.
    #[inline]
    pub(super) fn decided(
        &self,
        operands: Operands,
        casts: Casts,
        class: impl FnOnce() -> Option<Class>,
        full_precision: bool,
    ) {
        if let Some(seen) = &self.0 {
            let mut seen = seen.lock();
            seen.call.computed_in = operands.widest.map(|widest| casts.computes_in(widest));
            seen.call.why = match why(operands, casts, class(), full_precision) {
                Why::Operands if seen.only_parameters => Why::Parameters,
                why => why,
            };
            let (op, computed_in) = (seen.call.op, seen.call.computed_in);
            if let (Some(search), Some(computed_in)) = (seen.search.take(), computed_in) {
                seen.searched = Some(search.decided(op, computed_in));
            }
        }
    }

    /// Sees the cast of an operand or a result, unless it has the dtype already. `shared` says whether the cast was made
    /// before, `expanded` whether the tensor repeats the values of a smaller one.
    #[inline]
    pub(super) fn cast<B: AmpBackend, G: Graph<B>>(
        &self,
        tensor: &FloatTensor<G::Inner>,
        to: Precision,
        expanded: bool,
        shared: impl FnOnce() -> bool,
    ) {
        if let Some(seen) = &self.0
            && precision::of(tensor) != to
        {
            let shared = shared();
            let sample = match shared {
                true => Sample::default(),
                false => sample::of::<B>(|| G::values(tensor), to),
            };
            seen.lock().call.casts.push(Cast {
                from: precision::of(tensor),
                to,
                elements: tensor.shape().num_elements(),
                shared,
                expanded,
                sample,
            });
        }
    }

    /// Sees the cast of an operand, unless it is a chain that its reader computes.
    pub(super) fn cast_of<B: AmpBackend, G: Graph<B>>(
        &self,
        operand: &AmpTensor<B, G>,
        to: Precision,
    ) {
        if operand.waits() || operand.stored() == to {
            return;
        }
        let values = operand.clone().read(operand.stored(), Reader::Cut);
        let expanded = operand.recorded.expanded;
        self.cast::<B, G>(&values, to, expanded, || is_shared(operand, to));
    }

    /// What sees the gradient of an operand, if an overflow is searched.
    pub(super) fn probe<B: AmpBackend>(&self) -> Option<Probe<B>> {
        self.searched()
            .map(|searched| searched.operand_probe::<B>())
    }

    /// Sees an operand as the inner backend gets it.
    #[inline]
    pub(super) fn passed<B: AmpBackend, G: Graph<B>>(
        &self,
        operand: FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        match self.searched() {
            Some(searched) => G::probed(operand, searched.operand_probe::<B>()),
            None => operand,
        }
    }

    /// Sees a result that has not been computed.
    #[inline]
    pub(super) fn uncomputed<B: AmpBackend, G: Graph<B>>(&self, result: &AmpTensor<B, G>) {
        if let Some(seen) = &self.0 {
            let mut seen = seen.lock();
            seen.call.result = Some(Tensor::seen(result));
            seen.call.waits = true;
        }
    }

    /// Whether an overflow is searched. Each op is computed then, so that it can be found.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.searched().is_some()
    }

    /// Sees a result.
    #[inline]
    pub(super) fn result<B: AmpBackend, G: Graph<B>>(
        &self,
        result: FloatTensor<G::Inner>,
    ) -> FloatTensor<G::Inner> {
        if let Some(seen) = &self.0 {
            seen.lock().call.result = Some(Tensor::of(&result));
        }
        self.made::<B, G>(&result);
        match self.searched() {
            Some(searched) => searched.result::<B, G>(result),
            None => result,
        }
    }

    /// Sees a tensor that the call made.
    #[inline]
    pub(super) fn made<B: AmpBackend, G: Graph<B>>(&self, tensor: &FloatTensor<G::Inner>) {
        if self.is_on() && G::RECORDS {
            made::float::<G::Inner>(tensor);
        }
    }

    /// Sees an int result.
    #[inline]
    pub(super) fn int_result<B: AmpBackend, G: Graph<B>>(&self, result: &IntTensor<B>) {
        if self.is_on() && G::RECORDS {
            made::int::<B>(result);
        }
    }

    /// Sees a bool result.
    #[inline]
    pub(super) fn bool_result<B: AmpBackend, G: Graph<B>>(&self, result: &BoolTensor<B>) {
        if self.is_on() && G::RECORDS {
            made::bool::<B>(result);
        }
    }

    #[inline]
    fn searched(&self) -> Option<Arc<Searched>> {
        self.0.as_ref()?.lock().searched.clone()
    }
}

impl Drop for Watch {
    #[inline]
    fn drop(&mut self) {
        if let Some(seen) = self.0.take() {
            ended(seen.into_inner());
        }
    }
}

#[cold]
fn ended(seen: Seen) {
    let Seen {
        mut call, memory, ..
    } = seen;
    call.made = made::take();
    let is_view = |made: &Made| {
        let made = made.memory.address();
        memory.iter().any(|operand| operand.address() == made)
    };
    call.made.retain(|made| !is_view(made));
    // Not held while they work: a watcher may call ops itself.
    let watchers = WATCHERS.read().clone();
    for watcher in watchers {
        watcher.call(&call);
    }
}

/// Says that a backward pass begins.
pub(crate) fn backward_begins() {
    if watching::is_on() {
        let watchers = WATCHERS.read().clone();
        watchers
            .iter()
            .for_each(|watcher| watcher.backward_begins());
    }
}

impl Tensor {
    /// The tensor as it is stored, or as a reader of F32 gets it if it has not been computed.
    fn seen<B: AmpBackend, G: Graph<B>>(tensor: &AmpTensor<B, G>) -> Self {
        Self {
            dtype: tensor.stored(),
            shape: tensor.shape().as_slice().to_vec(),
        }
    }

    fn of<T: TensorMetadata>(tensor: &T) -> Self {
        Self {
            dtype: precision::of(tensor),
            shape: tensor.shape().as_slice().to_vec(),
        }
    }
}

/// Why a call computes in the dtype that the policy gave it.
fn why(operands: Operands, casts: Casts, class: Option<Class>, full_precision: bool) -> Why {
    let is_cast = casts.operands.is_some();
    match class {
        Some(_) if full_precision => Why::FullPrecision,
        Some(_) if operands.exact => Why::Gradient,
        Some(class @ (Class::Low | Class::Full | Class::Internal)) if is_cast => {
            Why::Class(class.name().into())
        }
        Some(Class::Widest | Class::Keep) if is_cast && operands.guarded => Why::Scalar,
        Some(_) | None if is_cast => Why::Promoted,
        Some(_) | None => Why::Operands,
    }
}

/// Whether the cast of an operand to `to` is made already, for another use.
fn is_shared<B: AmpBackend, G: Graph<B>>(operand: &AmpTensor<B, G>, to: Precision) -> bool {
    match &operand.role {
        Role::Leaf(leaf) => leaf.has_cast(to),
        Role::Activation | Role::Parameter(_) | Role::Gradient(_) => operand.recorded.has_low(to),
    }
}
