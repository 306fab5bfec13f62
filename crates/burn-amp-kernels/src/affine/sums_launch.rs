//! The launches of the sums.

use burn_backend::{Backend, DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, ops::reshape, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    Affine, Group,
    kernel::Launch,
    layout::DIMS,
    reference::terms,
    sums_kernel::{
        DivisionLaunch, SumCode, Summands, sum_of_slices_kernel, sums_by_team_kernel,
        sums_by_unit_kernel,
    },
};
use crate::cube::{
    plan::{address_type, empty_on_device_of, storage},
    team::Team,
};

/// The number of units to keep busy.
const UNITS: usize = 65536;
/// The fewest vectors that a unit adds, so that there are few partial sums.
const VECTORS: usize = 16;

/// Launches the sums of a group; `None` if the kernel cannot compute them.
pub(crate) fn sums<R: CubeRuntime, B>(
    x: &CubeTensor<R>,
    affine: &Affine<B>,
    grad: &CubeTensor<R>,
    group: Group,
) -> Option<[CubeTensor<R>; 2]>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let kept = affine.kept(group)?;
    launch(x, affine, Some(grad), &kept, Summands::Of(group), 1.0)
}

/// Launches the sums of `x + before` and of its square, or the means; `None` if the kernel cannot compute them.
pub(crate) fn moments<R: CubeRuntime, B>(
    x: &CubeTensor<R>,
    affine: &Affine<B>,
    kept: &Shape,
    mean: bool,
) -> Option<[CubeTensor<R>; 2]>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let divisor = if mean { terms(&x.shape(), kept) } else { 1.0 };
    launch(x, affine, None, kept, Summands::Moments, divisor as f32)
}

/// How many units add up one sum, and how much each.
struct Slices {
    /// Whether a unit adds neighbouring sums, those of a vector, because the last dimension is kept.
    by_unit: bool,
    /// The number of sums, or of vectors of them.
    sums: usize,
    /// The vectors that are added to one.
    length: usize,
    per_slice: usize,
    count: usize,
}

impl Slices {
    fn new(by_unit: bool, elements: usize, kept: usize, vector_size: usize) -> Self {
        let (sums, length, units_per_sum) = if by_unit {
            (kept / vector_size, elements / kept, 1)
        } else {
            let units_per_sum = UNITS.div_ceil(kept).min(256);
            (kept, elements / kept / vector_size, units_per_sum)
        };
        let slices = (UNITS / (sums * units_per_sum))
            .min(length / (VECTORS * units_per_sum))
            .max(1);
        let per_slice = length.div_ceil(slices);
        Self {
            by_unit,
            sums,
            length,
            per_slice,
            count: length.div_ceil(per_slice),
        }
    }

    /// Passes the division to a kernel. If there are several slices, only the last kernel divides.
    fn division<R: CubeRuntime>(&self, launch: &Launch<R>, divisor: f32) -> DivisionLaunch<R> {
        DivisionLaunch::new(
            launch.sizes(),
            self.sums,
            self.count,
            self.length,
            self.per_slice,
            if self.count == 1 { divisor } else { 1.0 },
        )
    }

    /// Returns the cubes, and the units of each.
    fn geometry<R: CubeRuntime>(
        &self,
        client: &ComputeClient<R>,
        team: &Team,
    ) -> (CubeCount, CubeDim) {
        let count = self.sums * self.count;
        if self.by_unit {
            let units = CubeDim::new(client, count);
            (calculate_cube_count_elemwise(client, count, units), units)
        } else {
            team.launch(client, count)
        }
    }
}

fn launch<R: CubeRuntime, B>(
    x: &CubeTensor<R>,
    affine: &Affine<B>,
    grad: Option<&CubeTensor<R>>,
    kept_shape: &Shape,
    what: Summands,
    divisor: f32,
) -> Option<[CubeTensor<R>; 2]>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let grad_dtype = grad.map_or(DType::F32, |grad| grad.dtype);
    let launch = Launch::new(x, affine, &[kept_shape], &[grad_dtype])?;
    let (layout, client) = (&launch.layout, x.client.clone());
    let bits = layout.varies(kept_shape);
    let kept = kept_shape.num_elements();
    let by_unit = bits & 1 << (DIMS - 1) != 0;
    let slices = Slices::new(by_unit, x.meta.num_elements(), kept, launch.vector_size);
    let code = SumCode {
        kept: bits,
        team: Team::new(&client, if by_unit { 1 } else { slices.per_slice }, VECTORS),
        chain: launch.factors.chain,
        summands: what,
    };
    let sums =
        [(), ()].map(|()| empty_on_device_of(x, Shape::new([slices.count, kept]), DType::F32));
    let division = slices.division(&launch, divisor);
    let addresses = address_type([x, &sums[0]]);
    let dtypes = [x.dtype, grad_dtype].map(storage);
    let x = layout.ordered(x.clone()).into_array_arg();
    let grad = grad.map(|grad| layout.ordered(grad.clone()).into_array_arg());
    let factors = launch.factors.launch();
    let (cubes, units) = slices.geometry(&client, &code.team);
    // The kernels differ in the type of the sums.
    macro_rules! launched {
        ($kernel:ident) => {
            $kernel::launch::<R>(
                &client,
                cubes,
                units,
                addresses,
                launch.vector_size,
                x,
                grad.into(),
                factors,
                sums.iter()
                    .cloned()
                    .map(CubeTensor::into_array_arg)
                    .collect(),
                division,
                code,
                dtypes,
            )
        };
    }
    if slices.by_unit {
        launched!(sums_by_unit_kernel);
    } else {
        launched!(sums_by_team_kernel);
    }
    let sums = match slices.count {
        1 => sums,
        slices => sum_of_slices(sums, slices, divisor),
    };
    let shape = layout.grid_shape(kept_shape);
    Some(sums.map(|sums| layout.restored_factor(reshape(sums, shape.clone()))))
}

/// Launches the sums of the slices, `[slices, sums]`.
fn sum_of_slices<R: CubeRuntime>(
    [first, second]: [CubeTensor<R>; 2],
    slices: usize,
    divisor: f32,
) -> [CubeTensor<R>; 2] {
    let client = first.client.clone();
    let kept = first.meta.num_elements() / slices;
    let totals = [(), ()].map(|()| empty_on_device_of(&first, Shape::new([kept]), DType::F32));
    let units = CubeDim::new(&client, kept);
    let [first_sum, second_sum] = totals.clone();
    sum_of_slices_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, kept, units),
        units,
        address_type([&first]),
        first.into_array_arg(),
        second.into_array_arg(),
        first_sum.into_array_arg(),
        second_sum.into_array_arg(),
        slices,
        divisor,
    );
    totals
}
