//! The dynamic loss scale on the device, for loops in which the host does not wait for the finite check.
//!
//! The state is an F32 tensor of [`STATE`] numbers: the scale, the streak of finite steps since it last changed, the
//! overflows that are still tolerated, whether the last pass overflowed (1) or not (0), and the stage of the search for
//! the first scale (over 0, down 1, up 2). [`state`] makes one on the host, [`scale_of`] and [`overflowed`] read one on
//! the device.
//!
//! * [`next`]: the state after a backward pass, from the state
//!   before it and the flags of the [finite check](crate::finite). It is
//!   [`LossScaling::next`](burn_amp_core::LossScaling::next) bit for bit, as long as `growth_interval` is below 2^24:
//!   steps are counted in F32.
//! * [`unscale_unless_overflowed`]: a gradient divided by the scale
//!   of its pass, in F32, or zeros if the pass overflowed. The gradient is read once, the result written once.

#[cfg(feature = "cubecl")]
mod kernel;
mod reference;

use burn_amp_core::{DynamicLossScale, LossScaleState, Search};
use burn_backend::Slice;

use crate::{prelude::*, widen::empty_wide_like};

/// The number of numbers in a state.
pub const STATE: usize = 5;

// Where each of them is.
pub(crate) const SCALE: usize = 0;
const STREAK: usize = 1;
const HYSTERESIS: usize = 2;
pub(crate) const OVERFLOWED: usize = 3;
const SEARCH: usize = 4;

// The stages of the search, as numbers in a state.
const OVER: f32 = 0.0;
const DOWN: f32 = 1.0;
const UP: f32 = 2.0;

/// Converts a state of the host to that of the device, after a pass that did not overflow.
pub fn state(host: LossScaleState) -> [f32; STATE] {
    let LossScaleState {
        scale,
        streak,
        hysteresis,
        search,
    } = host;
    let mut state = [0.0; STATE];
    state[SCALE] = scale;
    state[STREAK] = streak as f32;
    state[HYSTERESIS] = hysteresis as f32;
    state[SEARCH] = match search {
        Search::Over => OVER,
        Search::Down => DOWN,
        Search::Up => UP,
    };
    state
}

/// Returns the scale of a state, as `[1]`.
pub fn scale_of<B: Backend>(state: FloatTensor<B>) -> FloatTensor<B> {
    number::<B>(state, SCALE)
}

/// Returns whether the pass before a state overflowed, as `[1]`.
pub fn overflowed<B: Backend>(state: FloatTensor<B>) -> BoolTensor<B> {
    is_positive::<B>(number::<B>(state, OVERFLOWED))
}

/// Returns one number of a state, as `[1]`.
fn number<B: Backend>(state: FloatTensor<B>, at: usize) -> FloatTensor<B> {
    B::float_slice(state, &[Slice::from(at..at + 1)])
}

fn is_positive<B: Backend>(tensor: FloatTensor<B>) -> BoolTensor<B> {
    let bool_dtype = bool_dtype::<B>(&tensor);
    B::float_greater_elem(tensor, 0f32.into(), bool_dtype)
}

/// Computes the state of the loss scale after a backward pass, from the state before it and the flags of its gradients.
pub fn next<B: AmpBackend>(
    state: FloatTensor<B>,
    flags: FloatTensor<B>,
    scaling: DynamicLossScale,
) -> FloatTensor<B> {
    B::run(Next { scaling }, [state, flags].into()).one()
}

/// Divides a gradient by the scale of its pass, or zeroes it if the pass overflowed. The states are those `before` and
/// `after` the pass.
pub fn unscale_unless_overflowed<B: AmpBackend>(
    gradient: FloatTensor<B>,
    before: FloatTensor<B>,
    after: FloatTensor<B>,
) -> FloatTensor<B> {
    B::run(UnscaleUnlessOverflowed, [gradient, before, after].into()).one()
}

#[derive(Clone, Copy, Debug)]
struct Next {
    scaling: DynamicLossScale,
}

impl Kernel for Next {
    const NAME: &'static str = "burn_amp::next_loss_scale";

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [state, flags] = operands.exactly();
        [reference::next::<B>(state, flags, self.scaling)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let [state, flags] = operands.exactly();
        Ok([kernel::next_loss_scale(state, flags, self.scaling)].into())
    }
}

#[derive(Clone, Copy, Debug)]
struct UnscaleUnlessOverflowed;

impl Kernel for UnscaleUnlessOverflowed {
    const NAME: &'static str = "burn_amp::unscale_unless_overflowed";
    const IS_FUSED: bool = true;

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let [gradient, before, after] = operands.exactly();
        if gradient.shape().num_elements() == 0 {
            return [empty_wide_like::<B>(&gradient)].into();
        }
        let ones = Shape::from(vec![1; gradient.rank()]);
        let factor = B::float_recip(scale_of::<B>(before));
        let gradient = widen::<B>(gradient);
        let factor = cast::<B>(B::float_reshape(factor, ones.clone()), gradient.dtype());
        let unscaled = B::float_mul(gradient, factor);
        let overflowed = B::bool_reshape(overflowed::<B>(after), ones);
        let overflowed = B::bool_expand(overflowed, unscaled.shape());
        [B::float_mask_fill(unscaled, overflowed, 0f32.into())].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        let [gradient, before, after] = operands.exactly();
        Ok([kernel::unscale_unless_overflowed(gradient, before, after)].into())
    }
}
