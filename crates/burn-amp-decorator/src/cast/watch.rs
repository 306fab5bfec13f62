//! Watches a call from the look at its operands to its result. While nobody watches, a call has one pointer more, which is
//! null.

use std::sync::Arc;

use burn_amp_core::{
    Casts, Class, Operands, Precision,
    report::{Sample, Why},
};
use burn_amp_kernels::{
    AmpBackend,
    made::{self, Memory},
};
use burn_backend::{Scalar, TensorMetadata, tensor::FloatTensor};
use parking_lot::Mutex;

use super::{
    callee::Callee,
    locate::Search,
    sample, shadow,
    watchers::{self, Cast, Tensor, WatchedCall},
};
use crate::{
    graph::{Graph, Probe},
    precision,
    tensor::{AmpTensor, Reader, Recipe, Role},
    watching,
};

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
    searched: Option<Arc<Search>>,
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
        Self(Some(Box::new(Mutex::new(Seen {
            call: WatchedCall {
                op: callee.op(),
                ..WatchedCall::default()
            },
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

    /// Changes what was seen of the call, if it is watched.
    #[inline]
    fn see(&self, see: impl FnOnce(&mut Seen)) {
        if let Some(seen) = &self.0 {
            see(&mut seen.lock());
        }
    }

    /// Sees an operand.
    #[inline]
    pub(super) fn operand<B: AmpBackend, G: Graph<B>>(&self, operand: &AmpTensor<B, G>) {
        self.see(|seen| {
            if seen.search.is_none() {
                seen.search = Search::on(operand, seen.call.op);
            }
            if let Some(search) = &mut seen.search {
                search.operand(operand);
            }
            seen.call.operands.push(Tensor::seen(operand));
            seen.memory.extend(operand.memory());
            seen.call.reads_rounded |= operand.recipe().is_some_and(Recipe::is_rounded);
            seen.only_parameters &= !G::RECORDS && matches!(operand.role, Role::Parameter(_));
        });
    }

    /// Sees the memory of an int or bool operand.
    #[inline]
    pub(super) fn memory(&self, memory: impl FnOnce() -> Option<Memory>) {
        self.see(|seen| seen.memory.extend(memory()));
    }

    /// Sees a scalar operand, after the float operands.
    #[inline]
    pub(super) fn scalar(&self, value: Scalar) {
        self.see(|seen| {
            if let Some(search) = &mut seen.search {
                search.scalar(value.elem());
            }
        });
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
        self.see(|seen| {
            seen.call.computed_in = operands.widest.map(|widest| casts.computes_in(widest));
            seen.call.why = match why(operands, casts, class(), full_precision) {
                Why::Operands if seen.only_parameters => Why::Parameters,
                why => why,
            };
            if let (Some(search), Some(computed_in)) = (seen.search.take(), seen.call.computed_in) {
                seen.searched = Some(search.decided(computed_in));
            }
        });
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
        self.see(|seen| {
            seen.call.result = Some(Tensor::seen(result));
            seen.call.waits = true;
        });
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
        self.see(|seen| seen.call.result = Some(Tensor::of(&result)));
        self.made::<B, G>(|| made::float::<G::Inner>(&result));
        let result = match self.gradient_probe::<B, G>() {
            Some(probe) => G::probed(result, probe),
            None => result,
        };
        match self.searched() {
            Some(searched) => searched.result::<B, G>(result),
            None => result,
        }
    }

    /// Sees a tensor that the call made, which `tell` records.
    #[inline]
    pub(super) fn made<B: AmpBackend, G: Graph<B>>(&self, tell: impl FnOnce()) {
        if self.is_on() && G::RECORDS {
            tell();
        }
    }

    /// What shows the gradient of the result to watchers.
    #[inline]
    fn gradient_probe<B: AmpBackend, G: Graph<B>>(&self) -> Option<Probe<B>> {
        let seen = self.0.as_ref().filter(|_| G::RECORDS)?;
        watchers::probe::<B>(seen.lock().call.op)
    }

    #[inline]
    fn searched(&self) -> Option<Arc<Search>> {
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
    let is_view = |made: &made::Made| {
        let made = made.memory.address();
        memory.iter().any(|operand| operand.address() == made)
    };
    call.made.retain(|made| !is_view(made));
    watchers::show(&call);
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
