//! The kernels that add over chains and over values.

use cubecl::prelude::*;

use super::{
    Group,
    device::{Chain, Factors, Point, passed, plus, scaled, times},
};
use crate::cube::team::{Reduction, Team, over_row, team_index};

/// Which two numbers of each element are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Summands {
    /// `x + before` and its square.
    Moments,
    /// Those of a group of factors, or of all.
    Of(Group),
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SumCode {
    /// The dimensions that are kept, as bits.
    pub kept: u32,
    pub team: Team,
    pub chain: Chain,
    pub summands: Summands,
}

/// How the sums are divided among units.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Division {
    /// The sizes of the four dimensions, in elements.
    sizes: Point,
    /// The number of sums, or of vectors of them.
    kept: usize,
    /// The slices of each sum.
    slices: usize,
    /// The vectors that are added to one sum.
    length: usize,
    per_slice: usize,
    /// What a sum is divided by.
    divisor: f32,
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

/// The sizes of the four dimensions, in vectors along the last one.
#[cube]
fn in_vectors<N: Size>(sizes: Point) -> Point {
    Point {
        a: sizes.a,
        b: sizes.b,
        c: sizes.c,
        d: sizes.d / N::value(),
    }
}

/// Returns the two summands of the vector at a place.
#[cube]
fn summands<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    place: Point,
    sizes: Point,
    #[comptime] code: SumCode,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let of = comptime!(code.chain);
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
    match comptime!(code.summands) {
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
pub(super) fn sums_by_team_kernel<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    sums: &mut Sequence<Array<f32>>,
    division: Division,
    #[comptime] code: SumCode,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(code.team);
    let index = team_index(team);
    let vectors = in_vectors::<N>(division.sizes);
    let slice = index / division.kept;
    let sum = index % division.kept;
    let from = slice * division.per_slice;
    let end = (from + division.per_slice).min(division.length);
    let to = select(slice < division.slices, end, 0);
    let lane = UNIT_POS as usize % team.units;

    let mut firsts = Vector::<f32, N>::zeroed();
    let mut seconds = Vector::<f32, N>::zeroed();
    for summand in range_stepped(from + lane, to, team.units) {
        let place = place(sum, summand, vectors, code.kept);
        let (a, b) = summands::<X, G, N>(x, grad, factors, place, division.sizes, code);
        firsts += a;
        seconds += b;
    }
    let firsts = over_row::<N>(firsts, Reduction::Sum, team);
    let seconds = over_row::<N>(seconds, Reduction::Sum, team);
    if lane == 0 && slice < division.slices {
        sums.index_mut(0usize)[index] = firsts / division.divisor;
        sums.index_mut(1usize)[index] = seconds / division.divisor;
    }
}

/// Each unit adds one slice of as many neighbouring sums as a vector has elements: for sums that keep the last
/// dimension.
#[cube(launch, address_type = "dynamic")]
pub(super) fn sums_by_unit_kernel<X: Float, G: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    grad: &ComptimeOption<Array<Vector<G, N>>>,
    factors: &Factors,
    sums: &mut Sequence<Array<Vector<f32, N>>>,
    division: Division,
    #[comptime] code: SumCode,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    if ABSOLUTE_POS >= sums.index(0usize).len() {
        terminate!();
    }
    let vectors = in_vectors::<N>(division.sizes);
    let sum = ABSOLUTE_POS % division.kept;
    let from = ABSOLUTE_POS / division.kept * division.per_slice;
    let to = (from + division.per_slice).min(division.length);

    let mut firsts = Vector::<f32, N>::zeroed();
    let mut seconds = Vector::<f32, N>::zeroed();
    for summand in from..to {
        let place = place(sum, summand, vectors, code.kept);
        let (a, b) = summands::<X, G, N>(x, grad, factors, place, division.sizes, code);
        firsts += a;
        seconds += b;
    }
    let divisor = Vector::<f32, N>::new(division.divisor);
    sums.index_mut(0usize)[ABSOLUTE_POS] = firsts / divisor;
    sums.index_mut(1usize)[ABSOLUTE_POS] = seconds / divisor;
}

/// Adds the slices of each sum.
#[cube(launch, address_type = "dynamic")]
pub(super) fn sum_of_slices_kernel(
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
