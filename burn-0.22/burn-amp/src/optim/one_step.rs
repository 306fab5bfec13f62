//! The step of one parameter, as Burn's `ModuleOptimizer` asks for it.

use std::{cell::RefCell, sync::Arc};

use burn::{
    optim::{LearningRate, Optimizer, RecordState, StateSink, StateSource},
    tensor::{Device, Tensor},
};
use burn_amp_decorator::optimizer::{
    ListOptimizer,
    erased::{self, AnyParameter, AnyState, AnyStep, AnyTensor, entering, listening, take_left},
};
use parking_lot::Mutex;

use super::list_record;

/// Steps one parameter, or keeps it for the step of all of them ([`collected`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct OneStep(pub(super) ListOptimizer);

/// The state of a parameter. Whoever steps all of them fills it in after Burn has taken it.
#[derive(Default)]
pub(super) struct ParameterState<const D: usize>(Arc<Slot>);

/// A place for a state; `None` before the first step.
pub(super) type Slot = Mutex<Option<AnyState>>;

/// A parameter that waits for the step of all.
pub(super) struct Waiting {
    pub(super) lr: LearningRate,
    pub(super) tensor: AnyTensor,
    pub(super) gradient: AnyTensor,
    pub(super) state: Arc<Slot>,
}

thread_local! {
    /// The parameters that have come by; `None` if each is stepped at once.
    static WAITING: RefCell<Option<Vec<Waiting>>> = const { RefCell::new(None) };
}

/// Runs a function, in which the parameters that are to be stepped are kept. Each is replaced by its gradient meanwhile, which
/// costs nothing, so that nobody but the step holds the parameter, and it can be updated in place.
pub(super) fn collected<T>(function: impl FnOnce() -> T) -> (T, Vec<Waiting>) {
    WAITING.set(Some(Vec::new()));
    let _ended = scopeguard::guard((), |()| WAITING.set(None));
    let result = listening(function);
    (result, WAITING.take().unwrap_or_default())
}

impl Optimizer for OneStep {
    type State<const D: usize> = ParameterState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<ParameterState<D>>,
    ) -> (Tensor<D>, Option<ParameterState<D>>) {
        let state = state.unwrap_or_default();
        let gradient = any(grad.clone());
        let keeps = WAITING.with_borrow(Option::is_some);
        if keeps {
            // Burn has taken it out of its graph just before.
            let tensor = take_left().unwrap_or_else(|| any(tensor));
            let waiting = Waiting {
                lr,
                tensor,
                gradient,
                state: state.0.clone(),
            };
            WAITING.with_borrow_mut(|all| all.get_or_insert_default().push(waiting));
            return (grad, Some(state));
        }
        let step = AnyStep {
            max_norm: None,
            norm: None,
            parameters: vec![AnyParameter {
                id: 0, // Burn does not say which it is.
                keeps_more: false,
                lr,
                tensor: any(tensor),
                gradient,
                state: state.0.lock().take(),
            }],
        };
        let stepped = erased::step_any(&self.0, step);
        let (stepped, after) = stepped.into_iter().next().expect("one was stepped");
        *state.0.lock() = after;
        let stepped = entering(stepped, || Tensor::from_inner(grad)).inner();
        (stepped, Some(state))
    }

    /// The step brings the state to the device of its parameter.
    fn to_device<const D: usize>(state: ParameterState<D>, _: &Device) -> ParameterState<D> {
        state
    }
}

/// A tensor outside a graph as the step knows it.
fn any<const D: usize>(tensor: Tensor<D>) -> AnyTensor {
    let left = listening(|| {
        let _ = Tensor::from_inner(tensor).inner();
        take_left()
    });
    left.expect("the optimizer was made with burn-amp in the program")
}

/// A copy for another optimizer, whose steps do not change this one.
impl<const D: usize> Clone for ParameterState<D> {
    fn clone(&self) -> Self {
        Self(Arc::new(Mutex::new(self.0.lock().clone())))
    }
}

impl<const D: usize> RecordState for ParameterState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        if let Some(item) = self.0.lock().as_ref().and_then(AnyState::item) {
            list_record::write(item, prefix, out);
        }
    }

    fn state_unflatten(prefix: &str, source: &mut StateSource, _: &Device) -> Option<Self> {
        let item = list_record::read(prefix, D, source)?;
        Some(Self(Arc::new(Mutex::new(Some(AnyState::InFile(item))))))
    }
}
