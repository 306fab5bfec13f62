//! The step of all parameters together, for a caller who cannot name the backend: from Burn 0.22 on, a tensor has no
//! backend type.
//!
//! The caller has a tensor leave its graph, and the backend of burn-amp, which knows its own type, says meanwhile what
//! left ([`take_left`]). In the same way a tensor enters a graph ([`entering`]).

use std::{any::Any, cell::RefCell, sync::Arc};

use burn_amp_kernels::AmpBackend;
use burn_backend::{TensorMetadata, read_sync, tensor::FloatTensor};

use super::{ListItem, ListOptimizer, ListState, Parameter, norm, norm_factor};
use crate::{graph::Moment, loss_scale::Passes, tensor::AmpTensor};

/// A tensor outside a graph, of some backend.
pub struct AnyTensor(Box<dyn TensorOfBackend>);

/// The state of a parameter, of some backend or in a file.
pub enum AnyState {
    /// On a device.
    Live(Box<dyn StateOfBackend>),
    /// As it was read from a file.
    InFile(ListItem),
}

/// A parameter of a step.
pub struct AnyParameter {
    /// A number of its own, which the random numbers that it draws depend on.
    pub id: u64,
    /// Whether it is one of a norm or an embedding.
    pub keeps_more: bool,
    /// Its learning rate.
    pub lr: f64,
    /// The parameter.
    pub tensor: AnyTensor,
    /// Its gradient.
    pub gradient: AnyTensor,
    /// Its state; `None` before its first step.
    pub state: Option<AnyState>,
}

/// A step of all parameters together.
pub struct AnyStep<'a> {
    /// The norm to which all gradients together are clipped.
    pub max_norm: Option<f32>,
    /// What to do with the norm of the gradients before clipping, if somebody asks for it.
    pub norm: Option<OnNorm<'a>>,
    /// The parameters, all on devices of one backend.
    pub parameters: Vec<AnyParameter>,
}

/// The parameters and their states after a step, in their order. A state is `None` if there is nothing to keep.
pub type AnyStepped = Vec<(AnyTensor, Option<AnyState>)>;

/// Gets a function that reads the norm from the device. The step is skipped if it returns false.
pub type OnNorm<'a> = Box<dyn FnOnce(Box<dyn FnOnce() -> f64 + Send>) -> bool + 'a>;

/// A tensor of one backend.
trait TensorOfBackend: Any + Send {
    /// The step on this backend.
    fn step(&self) -> fn(&ListOptimizer, AnyStep<'_>) -> AnyStepped;

    fn withheld_since(&self, moment: Moment) -> bool;
}

/// A state of one backend.
pub trait StateOfBackend: Any + Send + Sync {
    /// A copy.
    fn cloned(&self) -> Box<dyn StateOfBackend>;

    /// The state in a file; `None` if there is nothing to keep. Waits for the device.
    fn item(&self) -> Option<ListItem>;
}

/// A tensor that left a graph, and the passes that its gradients were computed from.
struct Left<B: AmpBackend> {
    tensor: AmpTensor<B>,
    passes: Passes<B>,
}

impl<B: AmpBackend> TensorOfBackend for Left<B> {
    fn step(&self) -> fn(&ListOptimizer, AnyStep<'_>) -> AnyStepped {
        step::<B>
    }

    fn withheld_since(&self, moment: Moment) -> bool {
        let origin = self.tensor.role.origin();
        origin.is_some_and(|origin| origin.withheld_since(moment))
    }
}

impl<B: AmpBackend> StateOfBackend for ListState<B> {
    fn cloned(&self) -> Box<dyn StateOfBackend> {
        Box::new(self.clone())
    }

    fn item(&self) -> Option<ListItem> {
        self.clone().decided().map(ListItem::of)
    }
}

impl AnyTensor {
    /// Whether a gradient of the parameter was withheld after `moment`.
    pub fn withheld_since(&self, moment: Moment) -> bool {
        self.0.withheld_since(moment)
    }

    /// # Panics
    ///
    /// Panics if the tensor is one of another backend.
    fn of_backend<B: AmpBackend>(self) -> Left<B> {
        let left: Box<dyn Any> = self.0;
        let left = left.downcast();
        *left.expect(
            "the parameters of a model are on devices of one backend, and so are their gradients",
        )
    }
}

impl AnyState {
    /// The state in a file; `None` if there is nothing to keep. Waits for the device.
    pub fn item(&self) -> Option<ListItem> {
        match self {
            Self::Live(state) => state.item(),
            Self::InFile(item) => Some(item.clone()),
        }
    }

    /// The state on the backend of its parameter, where it may not have been before.
    fn of_backend<B: AmpBackend>(self, parameter: &AmpTensor<B>) -> Option<ListState<B>> {
        let item = match self {
            Self::InFile(item) => item,
            Self::Live(state) => {
                let any: &dyn Any = &*state;
                if any.is::<ListState<B>>() {
                    let state: Box<dyn Any> = state;
                    return state.downcast().ok().map(|state| *state);
                }
                state.item()?
            }
        };
        Some(item.into_state(&parameter.device()))
    }
}

impl Clone for AnyState {
    fn clone(&self) -> Self {
        match self {
            Self::Live(state) => Self::Live(state.cloned()),
            Self::InFile(item) => Self::InFile(item.clone()),
        }
    }
}

/// Makes a step. A state that is one of another optimizer, or of a parameter of another shape, begins anew, as with Burn's
/// optimizers.
///
/// # Panics
///
/// Panics if the parameters are not all on devices of one backend.
pub fn step_any(optimizer: &ListOptimizer, step: AnyStep<'_>) -> AnyStepped {
    match step.parameters.first() {
        Some(first) => first.tensor.0.step()(optimizer, step),
        None => Vec::new(),
    }
}

fn step<B: AmpBackend>(optimizer: &ListOptimizer, step: AnyStep<'_>) -> AnyStepped {
    let AnyStep {
        max_norm,
        norm: on_norm,
        parameters,
    } = step;
    let rates: Vec<f64> = parameters.iter().map(|parameter| parameter.lr).collect();
    let mut all = Passes::none();
    let parameters = parameters.into_iter().map(|parameter| {
        let Left { tensor, passes } = parameter.tensor.of_backend::<B>();
        all.join(&passes);
        let state = parameter.state;
        Parameter {
            id: parameter.id,
            keeps_more: parameter.keeps_more,
            gradient: parameter.gradient.of_backend::<B>().tensor,
            state: state
                .and_then(|state| state.of_backend(&tensor))
                .filter(|state| state.fits(&optimizer.rule, &tensor.shape())),
            tensor,
        }
    });
    let mut parameters: Vec<_> = parameters.collect();
    if max_norm.is_some() || on_norm.is_some() {
        let before = norm(
            parameters
                .iter()
                .map(|parameter| parameter.gradient.clone()),
        );
        let before = before.expect("there is a parameter");
        if let Some(max) = max_norm {
            let factor = Arc::new(norm_factor::<B>(before.clone(), max));
            for Parameter { gradient, .. } in &mut parameters {
                *gradient = gradient.clone().clipped_by(factor.clone());
            }
        }
        if let Some(on_norm) = on_norm
            && !on_norm(Box::new(move || read::<B>(before)))
        {
            let parameters = parameters.into_iter();
            return parameters
                .map(|parameter| any(parameter.tensor, parameter.state))
                .collect();
        }
    }
    let mut stepped: Vec<_> = parameters.iter().map(|_| None).collect();
    let mut left: Vec<_> = rates.into_iter().enumerate().zip(parameters).collect();
    // A list has one learning rate.
    while let Some(((_, lr), _)) = left.first() {
        let lr = *lr;
        let (list, others) = left.into_iter().partition(|((_, rate), _)| *rate == lr);
        left = others;
        let list: Vec<_> = list;
        let (places, list): (Vec<_>, Vec<_>) = list.into_iter().unzip();
        for ((at, _), parameter) in places.into_iter().zip(optimizer.step(lr, list, &all)) {
            stepped[at] = Some(any(parameter.tensor, parameter.state));
        }
    }
    stepped.into_iter().flatten().collect()
}

fn any<B: AmpBackend>(
    tensor: AmpTensor<B>,
    state: Option<ListState<B>>,
) -> (AnyTensor, Option<AnyState>) {
    let left = Left {
        tensor,
        passes: Passes::none(),
    };
    let state = state.map(|state| AnyState::Live(Box::new(state)));
    (AnyTensor(Box::new(left)), state)
}

/// Reads one F32 element from the device.
fn read<B: AmpBackend>(number: FloatTensor<B>) -> f64 {
    let data = read_sync(B::float_into_data(number)).expect("the device delivers a number");
    data.iter::<f64>().next().expect("it is one element")
}

thread_local! {
    /// What has left a graph last, while somebody listens; the outer `None` if nobody does.
    static LEFT: RefCell<Option<Option<AnyTensor>>> = const { RefCell::new(None) };
    /// What is to enter a graph.
    static ENTERING: RefCell<Option<AnyTensor>> = const { RefCell::new(None) };
}

/// Runs a function during which [`take_left`] knows which tensor has left its graph.
pub fn listening<T>(function: impl FnOnce() -> T) -> T {
    let before = LEFT.replace(Some(None));
    let _restored = scopeguard::guard(before, |before| LEFT.set(before));
    function()
}

/// Takes the tensor that has left its graph last since somebody listens; `None` if burn-amp is not in front of its backend.
pub fn take_left() -> Option<AnyTensor> {
    LEFT.with_borrow_mut(|left| left.as_mut()?.take())
}

/// Says, while somebody listens, which tensor leaves its graph, and the passes from which the program has taken a gradient.
#[inline]
pub fn leaves<B: AmpBackend>(tensor: impl FnOnce() -> (AmpTensor<B>, Passes<B>)) {
    LEFT.with_borrow_mut(|left| {
        if let Some(left) = left {
            let (tensor, passes) = tensor();
            *left = Some(AnyTensor(Box::new(Left { tensor, passes })));
        }
    });
}

/// Has `tensor` enter a graph in the place of the one that enters there.
pub fn entering<T>(tensor: AnyTensor, enter: impl FnOnce() -> T) -> T {
    ENTERING.set(Some(tensor));
    let _restored = scopeguard::guard((), |()| ENTERING.set(None));
    enter()
}

/// The tensor that is to enter a graph in the place of the one that enters.
#[inline]
pub fn enters<B: AmpBackend>() -> Option<AmpTensor<B>> {
    Some(ENTERING.take()?.of_backend::<B>().tensor)
}
