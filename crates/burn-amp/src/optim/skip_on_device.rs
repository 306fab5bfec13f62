//! Steps that are skipped on the device, without the host.

use std::sync::Arc;

use burn::{
    module::AutodiffModule,
    optim::{LearningRate, SimpleOptimizer, adaptor::OptimizerAdaptor},
    record::{PrecisionSettings, Record},
    tensor::{Tensor, TensorPrimitive, backend::AutodiffBackend},
};
use burn_amp_core::Outcome;
use burn_amp_kernels::Kernels;
use burn_backend::{
    Shape, Slice, TensorMetadata, get_device_settings,
    ops::FloatTensorOps,
    tensor::{BoolTensor, FloatTensor},
};

use super::OptimizerConfig;
use crate::{
    backend::AmpBackend,
    cast::precision as dtype,
    graph::NoGraph,
    loss_scale::{DeferredPass, Passes},
    tensor::{AmpTensor, Nature},
};

/// Adapts an optimizer to `loss_scale.sync = false`: the device selects the old or the new parameter, by what the backward pass
/// found.
///
/// Use it in the place of the optimizer's own `init`:
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
/// Parameters and state are those of a loop that waits, bit for bit. A step waits for the outcome of the step *before*, which
/// has arrived while the device computed the passes between; until then the state before that step is kept too, so the
/// optimizer's state takes twice its memory.
///
/// With gradients that need no such thing (`sync = true`, BF16) it is the inner optimizer. Over
/// [`MasterWeights`](super::MasterWeights), or any other [`SimpleOptimizer`]:
/// `OptimizerAdaptor::from(SkipOnDevice::new(my_optimizer))`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SkipOnDevice<O>(O);

impl<O> SkipOnDevice<O> {
    /// Skips the steps of `inner`: an optimizer, or the configuration of one.
    pub fn new(inner: O) -> Self {
        Self(inner)
    }
}

impl<C: OptimizerConfig> SkipOnDevice<C> {
    /// The optimizer of a configuration, with its gradient clipping, as Burn's own `init` makes it.
    pub fn init<B, M>(&self) -> OptimizerAdaptor<SkipOnDevice<C::Optimizer<B::InnerBackend>>, M, B>
    where
        B: AutodiffBackend<InnerBackend: AmpBackend<Graph = NoGraph>>,
        M: AutodiffModule<B>,
    {
        let inner = self.0.adaptor::<B, M>();
        let adaptor = OptimizerAdaptor::from(SkipOnDevice(inner.optim().clone()));
        match inner.grad_clipping() {
            Some(clipping) => adaptor.with_grad_clipping(clipping.clone()),
            None => adaptor,
        }
    }
}

/// The state of [`SkipOnDevice`] for one parameter: the inner optimizer's state `S`, or two of which one counts.
#[derive(Clone, Debug)]
pub struct SkipState<B: AmpBackend, S> {
    /// After the step.
    stepped: Option<S>,
    /// Before the step, as long as it may have been skipped.
    undecided: Option<Undecided<B, S>>,
}

#[derive(Clone, Debug)]
struct Undecided<B: AmpBackend, S> {
    before: Option<S>,
    passes: Passes<B::Plain>,
}

impl<B: AmpBackend, S> SkipState<B, S> {
    /// The state that counts. Waits for the device.
    fn decided(self) -> Option<S> {
        let overflowed = |pass: &Arc<DeferredPass<B::Plain>>| pass.wait().1 == Outcome::Overflowed;
        match self.undecided {
            Some(Undecided { before, passes }) if passes.iter().any(overflowed) => before,
            Some(_) | None => self.stepped,
        }
    }
}

impl<O, B> SimpleOptimizer<B> for SkipOnDevice<O>
where
    O: SimpleOptimizer<B>,
    B: AmpBackend<Graph = NoGraph>,
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
        let (grad, passes) = take_passes(grad);
        let (stepped, state) = self.0.step(lr, tensor.clone(), grad, before.clone());
        if passes.is_empty() {
            let state = state.map(|stepped| SkipState {
                stepped: Some(stepped),
                undecided: None,
            });
            return (stepped, state);
        }
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

/// A gradient, and the passes that it was computed from.
///
/// Without them, neither the parameter nor the optimizer's state carries them on into the steps to come.
fn take_passes<B: AmpBackend<Graph = NoGraph>, const D: usize>(
    grad: Tensor<B, D>,
) -> (Tensor<B, D>, Passes<B::Plain>) {
    let mut grad = grad.into_primitive().tensor();
    let passes = match &mut grad.nature {
        Nature::Gradient(passes) => std::mem::replace(passes, Passes::none()),
        _ => Passes::none(),
    };
    (Tensor::from_primitive(TensorPrimitive::Float(grad)), passes)
}

/// `old` if one of the passes overflowed, else `new`.
fn select<B: AmpBackend<Graph = NoGraph>, const D: usize>(
    old: Tensor<B, D>,
    new: Tensor<B, D>,
    passes: &Passes<B::Plain>,
) -> Tensor<B, D> {
    let old = old.into_primitive().tensor();
    let new = new.into_primitive().tensor();
    // burn-cubecl does not broadcast to nothing.
    let passes = passes
        .iter()
        .filter(|_| old.inner.shape().num_elements() > 0);
    let selected = passes.fold(new.inner, |new, pass| {
        let overflowed = overflowed::<B::Plain>(pass, &new);
        let old = dtype::cast::<B::Plain>(old.inner.clone(), dtype::of(&new));
        B::Plain::float_mask_where(new, overflowed, old)
    });
    let selected = AmpTensor {
        inner: selected,
        logical: new.logical,
        context: new.context,
        nature: Nature::Plain,
    };
    Tensor::from_primitive(TensorPrimitive::Float(selected))
}

/// Whether a pass overflowed, in the shape of a tensor and on its device.
fn overflowed<B: Kernels>(pass: &DeferredPass<B>, like: &FloatTensor<B>) -> BoolTensor<B> {
    let device = B::float_device(like);
    let bool_dtype = get_device_settings::<B>(&device).bool_dtype;
    let state = B::float_to_device(pass.after.clone(), &device);
    let flag = B::float_slice(state, &[Slice::from(3..4)]);
    let overflowed = B::float_greater_elem(flag, 0f32.into(), bool_dtype);
    let overflowed = B::bool_reshape(overflowed, Shape::from(vec![1; like.rank()]));
    B::bool_expand(overflowed, like.shape())
}

impl<B: AmpBackend, R: Record<B>> Record<B> for SkipState<B, R> {
    /// The state that counts; `None` if the first step was skipped.
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
