//! The launches of the sums.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, ops::reshape, tensor::CubeTensor};

use super::{
    Affine, Group,
    device::PointLaunch,
    kernel::Launch,
    layout::DIMS,
    reference::terms,
    spread_kernel::spread_kernel,
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

/// Launches the sums over all places of images `[batch, channels, height, width]`; `None` if the kernel cannot compute them.
pub(crate) fn sums_by_channel<R: CubeRuntime>(images: &CubeTensor<R>) -> Option<CubeTensor<R>> {
    let shape = images.shape();
    let kept = Shape::new([1, shape[1], 1, 1]);
    let [sums, _] = moments(images, &Affine::identity(shape), &kept, false)?;
    Some(sums)
}

/// Launches the sums of `x` and of the squares of what it is off the mean, or the means of both; `None` if the kernel cannot
/// compute them.
pub(crate) fn spreads<R: CubeRuntime>(
    x: &CubeTensor<R>,
    grid: &Shape,
    kept: &Shape,
    mean: bool,
) -> Option<[CubeTensor<R>; 2]> {
    let divisor = if mean { terms(&x.shape(), kept) } else { 1.0 };
    let chain = Affine::identity(grid.clone());
    let launch = Launch::new(x, &chain, std::slice::from_ref(kept), &[x.dtype])?;
    let plan = SumsPlan::new(x, &launch, kept);
    let [a, b, c, d] = launch.layout.sizes();
    let sizes = PointLaunch::new(a, b, c, d / launch.vector_size);
    let (cubes, units) = plan.team.launch(&x.client, plan.sums * plan.slices);
    let [sums, spreads] = plan.results(x, kept);
    spread_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([x, &sums]),
        launch.vector_size,
        launch.arg(x),
        sizes,
        sums.clone().into_array_arg(),
        spreads.clone().into_array_arg(),
        plan.division(divisor as f32),
        storage(x.dtype),
    );
    let terms = plan.terms(&launch);
    Some(plan.finished([sums, spreads], &launch, kept, divisor as f32, Some(terms)))
}

fn launch<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    grad: Option<&CubeTensor<R>>,
    kept: &Shape,
    what: Summands,
    divisor: f32,
) -> Option<[CubeTensor<R>; 2]> {
    let grad_dtype = grad.map_or(x.dtype, |grad| grad.dtype);
    // Eight of each factor, and of both sums, do not fit into the registers of a unit.
    let widest = grad.map_or(x.dtype, |_| DType::F32);
    let launch = Launch::new(x, affine, std::slice::from_ref(kept), &[widest])?;
    let plan = SumsPlan::new(x, &launch, kept);
    let (cubes, units) = plan.team.launch(&x.client, plan.sums * plan.slices);
    let results = plan.results(x, kept);
    let written = results.iter().cloned();
    affine_sums_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([x, &results[0]]),
        launch.vector_size,
        launch.arg(x),
        grad.map(|grad| launch.arg(grad)).into(),
        launch.factors(),
        written.map(CubeTensor::into_array_arg).collect(),
        plan.division(divisor),
        what,
        [x.dtype, grad_dtype].map(storage),
    );
    Some(plan.finished(results, &launch, kept, divisor, None))
}

/// How sums are divided among units.
struct SumsPlan {
    /// The number of sums, or of vectors of them.
    sums: usize,
    /// The slices of each sum.
    slices: usize,
    /// The vectors that are added to one sum.
    length: usize,
    per_slice: usize,
    /// Whether a unit adds neighbouring sums, those of a vector, because the last dimension is kept.
    by_unit: bool,
    /// The dimensions that are kept, as bits.
    bits: u32,
    team: Team,
}

impl SumsPlan {
    fn new<R: CubeRuntime>(x: &CubeTensor<R>, launch: &Launch<'_, R>, kept: &Shape) -> Self {
        let vector_size = launch.vector_size;
        let bits = launch.layout.varies(kept);
        let kept = kept.num_elements();
        let length = x.meta.num_elements() / kept;
        let by_unit = bits & 1 << (DIMS - 1) != 0;
        let (sums, length, units_per_sum) = if by_unit {
            (kept / vector_size, length, 1)
        } else {
            (kept, length / vector_size, UNITS.div_ceil(kept).min(256))
        };
        let most_slices = (UNITS / (sums * units_per_sum)).min(length / (VECTORS * units_per_sum));
        let per_slice = length.div_ceil(most_slices.max(1));
        Self {
            sums,
            slices: length.div_ceil(per_slice),
            length,
            per_slice,
            by_unit,
            bits,
            team: Team::new(&x.client, if by_unit { 1 } else { per_slice }, VECTORS),
        }
    }

    /// Tensors for the sums of all slices.
    fn results<R: CubeRuntime>(&self, x: &CubeTensor<R>, kept: &Shape) -> [CubeTensor<R>; 2] {
        let shape = Shape::new([self.slices, kept.num_elements()]);
        [(), ()].map(|()| empty_on_device_of(x, shape.clone(), DType::F32))
    }

    /// Passes the plan to a kernel. If there are several slices, only the kernel of their sums divides.
    fn division<R: CubeRuntime>(&self, divisor: f32) -> DivisionLaunch<R> {
        let divisor = if self.slices == 1 { divisor } else { 1.0 };
        DivisionLaunch::new(
            self.sums,
            self.slices,
            self.length,
            self.per_slice,
            divisor,
            self.bits,
            self.team,
        )
    }

    /// The terms of a slice and of a sum.
    fn terms<R: CubeRuntime>(&self, launch: &Launch<'_, R>) -> [usize; 2] {
        let per_vector = if self.by_unit { 1 } else { launch.vector_size };
        [self.per_slice, self.length].map(|vectors| vectors * per_vector)
    }

    /// Adds up the slices, in the shape of what is kept.
    fn finished<R: CubeRuntime>(
        &self,
        results: [CubeTensor<R>; 2],
        launch: &Launch<'_, R>,
        kept: &Shape,
        divisor: f32,
        spread: Option<[usize; 2]>,
    ) -> [CubeTensor<R>; 2] {
        let sums = match self.slices {
            1 => results,
            _ => sum_of_slices(results, divisor, spread),
        };
        let order = &launch.layout.grid_order;
        let shape = permuted(kept, order);
        sums.map(|sums| out_of_order(reshape(sums, shape.clone()), order))
    }
}
