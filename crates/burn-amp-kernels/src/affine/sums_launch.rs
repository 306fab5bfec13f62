//! The launches of the sums.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, ops::reshape, tensor::CubeTensor};

use super::{
    Affine, Group,
    kernel::Launch,
    layout::DIMS,
    reference::terms,
    sums_kernel::{DivisionLaunch, Summands, affine_sums_kernel},
};
use crate::cube::{
    layout::{out_of_order, permuted},
    plan::{address_type, empty_on_device_of, storage},
    slices::sum_of_slices,
    team::Team,
};

/// The number of units to keep busy: half of those of a large device, each of which has several loads under way.
const UNITS: usize = 1 << 17;
/// The fewest vectors that a unit adds, so that there are few partial sums.
const VECTORS: usize = 16;

/// Launches the sums of a group; `None` if the kernel cannot compute them.
pub(crate) fn sums<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    grad: &CubeTensor<R>,
    group: Group,
) -> Option<[CubeTensor<R>; 2]> {
    let kept = affine.kept(group)?;
    launch(x, affine, Some(grad), &kept, Summands::Of(group), 1.0)
}

/// Launches the sums of `x + before` and of its square, or the means; `None` if the kernel cannot compute them.
pub(crate) fn moments<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    kept: &Shape,
    mean: bool,
) -> Option<[CubeTensor<R>; 2]> {
    let divisor = if mean { terms(&x.shape(), kept) } else { 1.0 };
    launch(x, affine, None, kept, Summands::Moments, divisor as f32)
}

fn launch<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    grad: Option<&CubeTensor<R>>,
    kept_shape: &Shape,
    what: Summands,
    divisor: f32,
) -> Option<[CubeTensor<R>; 2]> {
    let grad_dtype = grad.map_or(x.dtype, |grad| grad.dtype);
    // Eight of each factor, and of both sums, do not fit into the registers of a unit.
    let widest = grad.map_or(x.dtype, |_| DType::F32);
    let launch = Launch::new(x, affine, std::slice::from_ref(kept_shape), &[widest])?;
    let (layout, vector_size) = (&launch.layout, launch.vector_size);
    let bits = layout.varies(kept_shape);
    let kept = kept_shape.num_elements();
    let length = x.meta.num_elements() / kept;
    // A unit adds neighbouring sums, those of a vector, if the last dimension is kept.
    let by_unit = bits & 1 << (DIMS - 1) != 0;
    let (sums, length, units_per_sum) = if by_unit {
        (kept / vector_size, length, 1)
    } else {
        (kept, length / vector_size, UNITS.div_ceil(kept).min(256))
    };
    let most_slices = (UNITS / (sums * units_per_sum)).min(length / (VECTORS * units_per_sum));
    let per_slice = length.div_ceil(most_slices.max(1));
    let slices = length.div_ceil(per_slice);
    let team = Team::new(&x.client, if by_unit { 1 } else { per_slice }, VECTORS);
    // If there are several slices, only the last kernel divides.
    let own_divisor = if slices == 1 { divisor } else { 1.0 };
    let (cubes, units) = team.launch(&x.client, sums * slices);
    let results = [(), ()].map(|()| empty_on_device_of(x, Shape::new([slices, kept]), DType::F32));
    let written = results.iter().cloned();
    affine_sums_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([x, &results[0]]),
        vector_size,
        launch.arg(x),
        grad.map(|grad| launch.arg(grad)).into(),
        launch.factors(),
        written.map(CubeTensor::into_array_arg).collect(),
        DivisionLaunch::new(
            sums,
            slices,
            length,
            per_slice,
            own_divisor,
            bits,
            team,
            what,
        ),
        [x.dtype, grad_dtype].map(storage),
    );
    let sums = if slices == 1 {
        results
    } else {
        sum_of_slices(results, divisor)
    };
    let shape = permuted(kept_shape, &layout.grid_order);
    Some(sums.map(|sums| out_of_order(reshape(sums, shape.clone()), &layout.grid_order)))
}
