use burn_backend::{Backend, DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    Affine, Group,
    device::{Chain, Factors, Point, passed, plus, scaled, sizes, times},
    kernel::Launch,
    layout::DIMS,
    reference::terms,
};
use crate::cube::{
    plan::{address_type, empty_on_device_of, storage},
    team::{Reduction, Team, over_row, team_index},
};

/// The number of units to keep busy.
const UNITS: usize = 65536;
/// The fewest vectors that a unit adds, so that there are few partial sums.
const VECTORS: usize = 16;

/// Which two numbers of each element are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Summands {
    /// `x + before` and its square.
    Moments,
    /// Those of a group of factors, or of all.
    Of(Group),
}

/// How the sums are divided among units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Division {
    /// The dimensions that are kept, as bits.
    kept: u32,
    team: Team,
}

/// Returns the place of the `summand`-th vector of the sum `kept`. `sizes` count vectors in the last dimension, and so does
/// the result.
#[cube]
fn place(kept: usize, summand: usize, sizes: Point, #[comptime] bits: u32) -> Point {
    let by_a = comptime!(bits & 1 != 0);
    let by_b = comptime!(bits & 2 != 0);
    let by_c = comptime!(bits & 4 != 0);
    let by_d = comptime!(bits & 8 != 0);
    let d = coordinate(kept, summand, sizes.d, by_d);
    let kept = rest(kept, sizes.d, by_d);
    let summand = rest(summand, sizes.d, comptime!(!by_d));
    let c = coordinate(kept, summand, sizes.c, by_c);
    let kept = rest(kept, sizes.c, by_c);
    let summand = rest(summand, sizes.c, comptime!(!by_c));
    let b = coordinate(kept, summand, sizes.b, by_b);
    let kept = rest(kept, sizes.b, by_b);
    let summand = rest(summand, sizes.b, comptime!(!by_b));
    let a = coordinate(kept, summand, sizes.a, by_a);
    Point { a, b, c, d }
}

/// The place along a dimension: that of the sum in one that is kept, that of the summand in another.
#[cube]
fn coordinate(kept: usize, summand: usize, size: usize, #[comptime] is_kept: bool) -> usize {
    if is_kept { kept % size } else { summand % size }
}

/// What is left of a number for the outer dimensions, if this one takes its part of it.
#[cube]
fn rest(number: usize, size: usize, #[comptime] takes: bool) -> usize {
    if takes { number / size } else { number }
}

/// Returns the two summands of the vector at a place.
#[cube]
fn summands<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    place: Point,
    sizes: Point,
    #[comptime] of: Chain,
    #[comptime] summands: Summands,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let vectors = sizes.d / N::value();
    let at = ((place.a * sizes.b + place.b) * sizes.c + place.c) * vectors + place.d;
    let point = Point {
        a: place.a,
        b: place.b,
        c: place.c,
        d: place.d * N::value(),
    };
    let x = Vector::<f32, N>::cast_from(x[at]);
    let centered = plus::<N>(x, &factors.before, point, sizes, of.before);
    #[comptime]
    let grad = match grad {
        ComptimeOption::Some(grad) => {
            let grad = Vector::<f32, N>::cast_from(grad[at]);
            passed::<N>(grad, centered, factors, point, sizes, of)
        }
        ComptimeOption::None => centered,
    };
    match comptime!(summands) {
        Summands::Moments => (grad, grad * centered),
        Summands::Of(Group::First) => {
            let grad = times::<N>(grad, &factors.rescale, point, sizes, of.rescale);
            (grad, grad * centered)
        }
        Summands::Of(Group::Second) => {
            let scaled = scaled::<N>(centered, factors, point, sizes, of);
            (grad, grad * scaled)
        }
        Summands::Of(Group::All) => (grad, grad * centered),
    }
}

/// Each team adds one slice of one sum: for sums over the last dimension.
#[cube(launch, address_type = "dynamic")]
fn sums_by_team_kernel<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    first: &mut Array<f32>,
    second: &mut Array<f32>,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    kept: usize,
    slices: usize,
    length: usize,
    per_slice: usize,
    divisor: f32,
    #[comptime] division: Division,
    #[comptime] of: Chain,
    #[comptime] what: Summands,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(division.team);
    let index = team_index(team);
    let sizes = sizes(a, b, c, d);
    let vectors = Point {
        a,
        b,
        c,
        d: d / N::value(),
    };
    let slice = index / kept;
    let sum = index % kept;
    let from = slice * per_slice;
    let to = select(slice < slices, (from + per_slice).min(length), 0);
    let lane = UNIT_POS as usize % team.units;

    let mut firsts = Vector::<f32, N>::zeroed();
    let mut seconds = Vector::<f32, N>::zeroed();
    for summand in range_stepped(from + lane, to, team.units) {
        let place = place(sum, summand, vectors, division.kept);
        let (a, b) = summands::<X, G, N>(x, grad, factors, place, sizes, of, what);
        firsts += a;
        seconds += b;
    }
    let firsts = over_row::<N>(firsts, Reduction::Sum, team);
    let seconds = over_row::<N>(seconds, Reduction::Sum, team);
    if lane == 0 && slice < slices {
        first[index] = firsts / divisor;
        second[index] = seconds / divisor;
    }
}

/// Each unit adds one slice of as many neighbouring sums as a vector has elements: for sums that keep the last
/// dimension.
#[cube(launch, address_type = "dynamic")]
fn sums_by_unit_kernel<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    first: &mut Array<Vector<f32, N>>,
    second: &mut Array<Vector<f32, N>>,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    kept: usize,
    length: usize,
    per_slice: usize,
    divisor: f32,
    #[comptime] division: Division,
    #[comptime] of: Chain,
    #[comptime] what: Summands,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= first.len() {
        terminate!();
    }
    let sizes = sizes(a, b, c, d);
    let vectors = Point {
        a,
        b,
        c,
        d: d / N::value(),
    };
    let sum = ABSOLUTE_POS % kept;
    let from = ABSOLUTE_POS / kept * per_slice;
    let to = (from + per_slice).min(length);

    let mut firsts = Vector::<f32, N>::zeroed();
    let mut seconds = Vector::<f32, N>::zeroed();
    for summand in from..to {
        let place = place(sum, summand, vectors, division.kept);
        let (a, b) = summands::<X, G, N>(x, grad, factors, place, sizes, of, what);
        firsts += a;
        seconds += b;
    }
    let divisor = Vector::<f32, N>::new(divisor);
    first[ABSOLUTE_POS] = firsts / divisor;
    second[ABSOLUTE_POS] = seconds / divisor;
}

/// Adds the slices of each sum.
#[cube(launch, address_type = "dynamic")]
fn sum_of_slices_kernel(
    first: &Array<f32>,
    second: &Array<f32>,
    first_sum: &mut Array<f32>,
    second_sum: &mut Array<f32>,
    slices: usize,
    divisor: f32,
) {
    let sums = first_sum.len();
    if ABSOLUTE_POS >= sums {
        terminate!();
    }
    let mut a = 0.0f32;
    let mut b = 0.0f32;
    for slice in 0..slices {
        a += first[slice * sums + ABSOLUTE_POS];
        b += second[slice * sums + ABSOLUTE_POS];
    }
    first_sum[ABSOLUTE_POS] = a / divisor;
    second_sum[ABSOLUTE_POS] = b / divisor;
}

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
    let keeps_last = bits & 1 << (DIMS - 1) != 0;
    let kept = kept_shape.num_elements();
    // The sums that a unit adds at once, and the vectors that are added to one.
    let (sums, length) = if keeps_last {
        (kept / launch.vector_size, x.meta.num_elements() / kept)
    } else {
        (kept, x.meta.num_elements() / kept / launch.vector_size)
    };
    let units_per_sum = if keeps_last {
        1
    } else {
        UNITS.div_ceil(sums).min(256)
    };
    let slices = (UNITS / (sums * units_per_sum))
        .min(length / (VECTORS * units_per_sum))
        .max(1);
    let per_slice = length.div_ceil(slices);
    let slices = length.div_ceil(per_slice);
    let division = Division {
        kept: bits,
        team: Team::new(&client, if keeps_last { 1 } else { per_slice }, VECTORS),
    };
    let empty = |shape| empty_on_device_of(x, shape, DType::F32);
    let [first, second] = [(), ()].map(|()| empty(Shape::new([slices, kept])));
    // Only the last kernel divides.
    let per_slice_divisor = if slices == 1 { divisor } else { 1.0 };
    let addresses = address_type([x, &first]);
    let dtypes = [x.dtype, grad_dtype].map(storage);
    let x = layout.ordered(x.clone()).into_array_arg();
    let grad = grad.map(|grad| layout.ordered(grad.clone()).into_array_arg());
    let [a, b, c, d] = launch.sizes;
    if keeps_last {
        let units = CubeDim::new(&client, sums * slices);
        sums_by_unit_kernel::launch::<R>(
            &client,
            calculate_cube_count_elemwise(&client, sums * slices, units),
            units,
            addresses,
            launch.vector_size,
            x,
            grad.into(),
            launch.factors.launch(),
            first.clone().into_array_arg(),
            second.clone().into_array_arg(),
            a,
            b,
            c,
            d,
            sums,
            length,
            per_slice,
            per_slice_divisor,
            division,
            launch.factors.chain,
            what,
            dtypes,
        );
    } else {
        let (cubes, units) = division.team.launch(&client, sums * slices);
        sums_by_team_kernel::launch::<R>(
            &client,
            cubes,
            units,
            addresses,
            launch.vector_size,
            x,
            grad.into(),
            launch.factors.launch(),
            first.clone().into_array_arg(),
            second.clone().into_array_arg(),
            a,
            b,
            c,
            d,
            sums,
            slices,
            length,
            per_slice,
            per_slice_divisor,
            division,
            launch.factors.chain,
            what,
            dtypes,
        );
    }
    let results = if slices == 1 {
        [first, second]
    } else {
        let totals = [(), ()].map(|()| empty(Shape::new([kept])));
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
    };
    let shape = layout.grid_shape(kept_shape);
    Some(results.map(|sums| {
        let sums = burn_cubecl::ops::reshape(sums, shape.clone());
        layout.restored_factor(sums)
    }))
}
