//! Skips steps on the device, without waiting for the host.

use burn::{
    module::AutodiffModule,
    optim::{LearningRate, SimpleOptimizer, adaptor::OptimizerAdaptor},
    record::{PrecisionSettings, Record},
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_kernels::{AmpBackend, loss_scale};
use burn_backend::{
    Shape, TensorMetadata,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor},
};

use super::{
    Masters, OptimizerConfig,
    config::replace_optimizer,
    passes::{overflowed, take_passes},
};
use crate::{
    backend::Amped,
    graph::{NoGraph, Recorded},
    loss_scale::{DeferredPass, Passes},
    precision,
    tensor::{AmpTensor, Parts, Reader},
};

/// Adapts an optimizer to `loss_scale.sync = false`: the device selects the old or the new parameter, depending on
/// whether the backward pass overflowed.
///
/// [`AmpOptimizer`](super::AmpOptimizer) contains it. Used alone, it replaces the `init` of the optimizer's
/// configuration:
///
/// ```
/// # use burn::{backend::Flex, nn::{Linear, LinearConfig}, optim::{AdamConfig, Optimizer}};
/// use burn_amp::optim::SkipOnDevice;
/// # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
/// # let model: Linear<B> = LinearConfig::new(2, 2).init(&Default::default());
///
/// let mut optimizer = SkipOnDevice::new(AdamConfig::new()).init();
/// # let mut _fixes_the_types = |grads| optimizer.step(1e-3, model.clone(), grads);
/// ```
///
/// Parameters and optimizer state end up the same as in a loop that waits, bit for bit. A parameter is left unchanged
/// if a backward pass that its own gradient was computed from overflowed; `AmpOptimizer` then leaves the other
/// parameters of the step unchanged as well.
///
/// A step waits for the outcome of the *previous* step, which has usually arrived by then. Until it is known, the state
/// before that step is kept too, so the optimizer's state takes twice as much memory.
///
/// Gradients whose outcome the host knows already (`sync = true`, or no loss scaling) go straight to the inner
/// optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SkipOnDevice<O>(O);

impl<O> SkipOnDevice<O> {
    /// Skips the steps of `inner`: an optimizer, or the configuration of one.
    pub fn new(inner: O) -> Self {
        Self(inner)
    }

    /// Makes the optimizer of a configuration, with its gradient clipping, as the configuration's own `init` does.
    pub fn init<A, M>(&self) -> OptimizerAdaptor<SkipOnDevice<O::Optimizer>, M, A>
    where
        A: AutodiffBackend<InnerBackend: Amped<Graph = NoGraph>>,
        M: AutodiffModule<A>,
        O: OptimizerConfig<A::InnerBackend>,
    {
        self.adaptor()
    }
}

impl<B, C> OptimizerConfig<B> for SkipOnDevice<C>
where
    B: Amped<Graph = NoGraph>,
    C: OptimizerConfig<B>,
{
    type Optimizer = SkipOnDevice<C::Optimizer>;

    fn simple(&self) -> Self::Optimizer {
        SkipOnDevice(self.0.simple())
    }

    fn adaptor<A, M>(&self) -> OptimizerAdaptor<Self::Optimizer, M, A>
    where
        A: AutodiffBackend<InnerBackend = B>,
        M: AutodiffModule<A>,
    {
        replace_optimizer(self.0.adaptor(), SkipOnDevice)
    }

    fn masters(&self) -> Masters {
        self.0.masters()
    }
}

/// The state of [`SkipOnDevice`] for one parameter: the inner optimizer's state `S`, and until the outcome of the last
/// step is known, also the state before that step.
#[derive(Clone, Debug)]
pub struct SkipState<B: Amped, S> {
    /// The state after the step.
    stepped: Option<S>,
    /// The state before the step, as long as it is unknown whether the step was skipped.
    undecided: Option<Undecided<B, S>>,
}

#[derive(Clone, Debug)]
struct Undecided<B: Amped, S> {
    before: Option<S>,
    passes: Passes<B::Plain>,
}

impl<B: Amped, S> SkipState<B, S> {
    /// A state that is known to be valid.
    pub(super) fn of(state: S) -> Self {
        Self {
            stepped: Some(state),
            undecided: None,
        }
    }

    /// Returns the valid one of the two states. Waits for the device.
    pub(super) fn decided(self) -> Option<S> {
        match self.undecided {
            Some(Undecided { before, passes }) if overflowed(&passes) => before,
            Some(_) | None => self.stepped,
        }
    }
}

impl<O, B> SimpleOptimizer<B> for SkipOnDevice<O>
where
    O: SimpleOptimizer<B>,
    B: Amped<Graph = NoGraph>,
{
    type State<const D: usize> = SkipState<B, O::State<D>>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<B, D>,
        grad: Tensor<B, D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<B, D>, Option<Self::State<D>>) {
        let before = state.and_then(SkipState::decided);
        // The passes are removed from the gradient, so that the parameter and the optimizer's state do not inherit
        // them.
        let (grad, passes) = take_passes(grad);
        if passes.is_empty() {
            let (stepped, state) = self.0.step(lr, tensor, grad, before);
            let state = state.map(|stepped| SkipState {
                stepped: Some(stepped),
                undecided: None,
            });
            return (stepped, state);
        }
        let (stepped, state) = self.0.step(lr, tensor.clone(), grad, before.clone());
        let selected = select::<B, D>(tensor, stepped, &passes);
        let state = SkipState {
            stepped: state,
            undecided: Some(Undecided { before, passes }),
        };
        (selected, Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &B::Device) -> Self::State<D> {
        SkipState {
            stepped: state.stepped.map(|state| O::to_device(state, device)),
            undecided: state.undecided.map(|undecided| Undecided {
                before: undecided.before.map(|state| O::to_device(state, device)),
                ..undecided
            }),
        }
    }
}

/// Returns `old` if one of the passes overflowed, else `new`. The device decides.
fn select<B: Amped<Graph = NoGraph>, const D: usize>(
    old: Tensor<B, D>,
    new: Tensor<B, D>,
    passes: &Passes<B::Plain>,
) -> Tensor<B, D> {
    let old = old.into_primitive().tensor();
    let new = new.into_primitive().tensor();
    // burn-cubecl cannot broadcast to an empty tensor.
    let passes = passes.iter().filter(|_| old.shape().num_elements() > 0);
    let parts = new.into_parts();
    let selected = passes.fold(parts.values, |new, pass| {
        let overflowed = overflow_flag::<B::Plain>(pass, &new);
        let old = old.clone().read(precision::of(&new), Reader::Cut);
        B::Plain::float_mask_where(new, overflowed, old)
    });
    let selected = AmpTensor::of(Parts {
        values: selected,
        recorded: Recorded::nothing(),
        ..parts
    });
    Tensor::from_primitive(TensorPrimitive::Float(selected))
}

/// Returns whether a pass overflowed, as a tensor of the shape and on the device of `like`.
fn overflow_flag<B: AmpBackend>(pass: &DeferredPass<B>, like: &FloatTensor<B>) -> BoolTensor<B> {
    let device = B::float_device(like);
    let overflowed = loss_scale::overflowed::<B>(B::float_to_device(pass.after.clone(), &device));
    let overflowed = B::bool_reshape(overflowed, Shape::from(vec![1; like.rank()]));
    B::bool_expand(overflowed, like.shape())
}

impl<B: Amped, R: Record<B>> Record<B> for SkipState<B, R> {
    /// The valid one of the two states; `None` if the first step was skipped.
    type Item<S: PrecisionSettings> = Option<R::Item<S>>;

    /// Waits for the device.
    fn into_item<S: PrecisionSettings>(self) -> Self::Item<S> {
        self.decided().map(Record::into_item)
    }

    fn from_item<S: PrecisionSettings>(item: Self::Item<S>, device: &B::Device) -> Self {
        Self {
            stepped: item.map(|item| R::from_item(item, device)),
            undecided: None,
        }
    }
}
