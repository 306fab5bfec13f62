use burn_amp_core::DynamicLossScale;
use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{DOWN, HYSTERESIS, OVER, OVERFLOWED, SCALE, SEARCH, STATE, STREAK, UP};
use crate::cube::{
    names::{Buffer, TensorView, TensorViewMut, shared},
    plan::{empty_on_device_of, one_each, storage, strided_vector_size},
};

/// The units that read the flags, of which there are some hundreds: one after the other they would take longer than all
/// the rest.
const UNITS: u32 = 128;

/// The numbers of a [`DynamicLossScale`].
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Scaling {
    init: f32,
    search_fall: f32,
    growth_factor: f32,
    backoff_factor: f32,
    growth_interval: f32,
    hysteresis: f32,
    smallest: f32,
    largest: f32,
}

/// The units of a cube find the largest flag; one of them computes the five numbers.
#[cube(launch)]
fn next_loss_scale_kernel(
    state: &Buffer<f32>,
    flags: &Buffer<f32>,
    next: &mut Buffer<f32>,
    scaling: Scaling,
) {
    let mut found = 0.0f32;
    for at in range_stepped(UNIT_POS as usize, flags.len(), UNITS as usize) {
        found = max(found, flags[at]);
    }
    let mut shared = shared::<f32>(comptime!(UNITS as usize));
    shared[UNIT_POS as usize] = found;
    sync_cube();
    if UNIT_POS > 0 {
        terminate!();
    }
    let mut overflowed = 0.0f32;
    #[unroll]
    for at in 0..UNITS {
        overflowed = max(overflowed, shared[at as usize]);
    }
    let scale = state[SCALE];
    let searches = state[SEARCH] > OVER;
    if overflowed > 0.0 {
        let is_down = state[SEARCH] == DOWN;
        let left = select(
            searches,
            scaling.hysteresis,
            max(state[HYSTERESIS] - 1.0, 0.0),
        );
        let backoff = select(searches, 0.5f32, scaling.backoff_factor);
        let factor = select(is_down, scaling.search_fall, backoff);
        let lowered = min(max(scale * factor, scaling.smallest), scale);
        let tolerated = !searches && left > 0.0;
        next[SCALE] = select(tolerated, scale, lowered);
        next[STREAK] = 0.0;
        next[HYSTERESIS] = left;
        next[SEARCH] = select(is_down, DOWN, OVER);
    } else {
        let goes_on = searches && scale < scaling.init;
        let streak = state[STREAK] + 1.0;
        let grows = !searches && streak >= scaling.growth_interval;
        let grown = max(min(scale * scaling.growth_factor, scaling.largest), scale);
        next[SCALE] = select(goes_on, scale * 2.0, select(grows, grown, scale));
        next[STREAK] = select(searches || grows, 0.0f32, streak);
        next[HYSTERESIS] = scaling.hysteresis;
        next[SEARCH] = select(goes_on, UP, OVER);
    }
    next[OVERFLOWED] = overflowed;
}

/// Launches the computation of the next state.
pub(crate) fn next_loss_scale<R: CubeRuntime>(
    state: CubeTensor<R>,
    flags: CubeTensor<R>,
    scaling: DynamicLossScale,
) -> CubeTensor<R> {
    let next = empty_on_device_of(&state, Shape::new([STATE]), DType::F32);
    next_loss_scale_kernel::launch::<R>(
        &next.client,
        CubeCount::new_single(),
        CubeDim::new_1d(UNITS),
        into_contiguous(state).into_array_arg(),
        into_contiguous(flags).into_array_arg(),
        next.clone().into_array_arg(),
        ScalingLaunch::new(
            scaling.init,
            DynamicLossScale::SEARCH_FALL,
            scaling.growth_factor,
            scaling.backoff_factor,
            scaling.growth_interval as f32,
            scaling.hysteresis as f32,
            scaling.min,
            scaling.max,
        ),
    );
    next
}

#[cube(launch)]
fn unscale_unless_overflowed_kernel<F: Numeric, N: Size>(
    gradient: &TensorView<Vector<F, N>>,
    before: &Buffer<f32>,
    after: &Buffer<f32>,
    output: &mut TensorViewMut<Vector<f32, N>>,
    #[define(F)] _dtype: StorageType,
) {
    if !output.is_in_bounds(ABSOLUTE_POS) {
        terminate!();
    }
    let factor = 1.0 / before[SCALE];
    if after[OVERFLOWED] > 0.0 {
        output.write(ABSOLUTE_POS, Vector::new(0.0));
    } else {
        let values = Vector::<f32, N>::cast_from(gradient.read(ABSOLUTE_POS));
        output.write(ABSOLUTE_POS, values * Vector::new(factor));
    }
}

/// Launches the unscaling of one gradient. `before` and `after` are the states before and after its pass.
pub(crate) fn unscale_unless_overflowed<R: CubeRuntime>(
    gradient: CubeTensor<R>,
    before: CubeTensor<R>,
    after: CubeTensor<R>,
) -> CubeTensor<R> {
    let output = empty_on_device_of(&gradient, gradient.shape(), DType::F32);
    let elements = gradient.meta.num_elements();
    if elements == 0 {
        return output;
    }
    let (dtype, vector_size) = (gradient.dtype, strided_vector_size(&gradient));
    let (cubes, units) = one_each(&output.client, elements / vector_size);
    unscale_unless_overflowed_kernel::launch::<R>(
        &output.client,
        cubes,
        units,
        vector_size,
        gradient.into_linear_view(),
        into_contiguous(before).into_array_arg(),
        into_contiguous(after).into_array_arg(),
        output.clone().into_linear_view(),
        storage(dtype),
    );
    output
}
