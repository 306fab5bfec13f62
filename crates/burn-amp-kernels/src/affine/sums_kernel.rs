//! The kernels that add over chains and over values.

use cubecl::prelude::*;

use super::{
    Group,
    device::{Factors, Ordered, Point},
};
use crate::cube::{
    names::{OwnedBuffer, element},
    team::{Reduction, Team, over_row, team_index},
};

/// Which two numbers of each element are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Summands {
    /// `x + before` and its square.
    Moments,
    /// Those of a group of factors, or of all.
    Of(Group),
}

/// How the sums are divided among units.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Division {
    /// The number of sums, or of vectors of them.
    pub sums: usize,
    /// The slices of each sum.
    pub slices: usize,
    /// The vectors that are added to one sum.
    pub length: usize,
    pub per_slice: usize,
    /// What a sum is divided by.
    pub divisor: f32,
    /// The dimensions that are kept, as bits.
    #[cube(comptime)]
    pub kept: u32,
    #[cube(comptime)]
    pub team: Team,
}

/// Returns the place of the `summand`-th vector of the sum `kept`. `sizes` count vectors in the last dimension, and so does
/// the result.
#[cube]
pub(super) fn place(kept: usize, summand: usize, sizes: Point, #[comptime] bits: u32) -> Point {
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
    x: &Ordered<X, N>,
    grad: &ComptimeOption<Ordered<G, N>>,
    factors: &Factors<N>,
    place: Point,
    #[comptime] summands: Summands,
) -> (Vector<f32, N>, Vector<f32, N>) {
    let sizes = factors.sizes;
    let vectors = sizes.d / N::value();
    let at = ((place.a * sizes.b + place.b) * sizes.c + place.c) * vectors + place.d;
    let point = Point {
        a: place.a,
        b: place.b,
        c: place.c,
        d: place.d * N::value(),
    };
    let centered = factors.centered(x.at(at), point);
    #[comptime]
    let grad = match grad {
        ComptimeOption::Some(grad) => factors.passed(grad.at(at), centered, point),
        ComptimeOption::None => centered,
    };
    match summands {
        Summands::Moments => (grad, grad * centered),
        Summands::Of(Group::First) => {
            let grad = factors.rescaled(grad, point);
            (grad, grad * centered)
        }
        Summands::Of(Group::Second) => (grad, grad * factors.scaled(centered, point)),
        Summands::Of(Group::All) => (grad, grad * centered),
    }
}

/// Each team adds one slice of one sum. If the last dimension is kept, a team is a unit, and adds one slice of as many
/// neighbouring sums as a vector has elements.
#[cube(launch, address_type = "dynamic")]
pub(super) fn affine_sums_kernel<X: Float, G: Float, N: Size>(
    x: &Ordered<X, N>,
    grad: &ComptimeOption<Ordered<G, N>>,
    factors: &Factors<N>,
    sums: &mut Sequence<OwnedBuffer<f32>>,
    division: Division,
    #[comptime] what: Summands,
    #[define(X, G)] _dtypes: [StorageType; 2],
) {
    let team = comptime!(division.team);
    let index = team_index(team);
    let sizes = Point {
        a: factors.sizes.a,
        b: factors.sizes.b,
        c: factors.sizes.c,
        d: factors.sizes.d / N::value(),
    };
    let slice = index / division.sums;
    let sum = index % division.sums;
    let from = slice * division.per_slice;
    let end = (from + division.per_slice).min(division.length);
    let to = select(slice < division.slices, end, 0);
    let lane = UNIT_POS as usize % team.units;

    let mut firsts = Vector::<f32, N>::zeroed();
    let mut seconds = Vector::<f32, N>::zeroed();
    for summand in range_stepped(from + lane, to, team.units) {
        let place = place(sum, summand, sizes, comptime!(division.kept));
        let (a, b) = summands::<X, G, N>(x, grad, factors, place, what);
        firsts += a;
        seconds += b;
    }
    if comptime!(division.kept & 8 != 0) {
        if slice < division.slices {
            #[unroll]
            for i in 0..N::value() {
                sums.index_mut(0usize)[index * N::value() + i] =
                    element::<f32, N>(firsts, i) / division.divisor;
                sums.index_mut(1usize)[index * N::value() + i] =
                    element::<f32, N>(seconds, i) / division.divisor;
            }
        }
    } else {
        let first = over_row::<N>(firsts, Reduction::Sum, team);
        let second = over_row::<N>(seconds, Reduction::Sum, team);
        if lane == 0 && slice < division.slices {
            sums.index_mut(0usize)[index] = first / division.divisor;
            sums.index_mut(1usize)[index] = second / division.divisor;
        }
    }
}
