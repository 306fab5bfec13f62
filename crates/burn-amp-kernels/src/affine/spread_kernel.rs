//! The kernel of sums, and of the sums of the squares of what their terms are off the mean.

use cubecl::prelude::*;

use super::{
    device::{Ordered, Point},
    sums_kernel::{Division, place},
};
use crate::cube::{
    names::{Buffer, element},
    team::{Reduction, over_row, team_index},
};

/// The same division as that of other sums. Each unit adds what its terms are off the first of them, so that no digits are lost
/// where the mean is large; then what the means of units are off the mean of the slice.
#[cube(launch, address_type = "dynamic")]
pub(super) fn spread_kernel<X: Float, N: Size>(
    x: &Ordered<X, N>,
    sizes: Point,
    sums: &mut Buffer<f32>,
    spreads: &mut Buffer<f32>,
    division: Division,
    #[define(X)] _dtype: StorageType,
) {
    let team = comptime!(division.team);
    let bits = comptime!(division.kept);
    let index = team_index(team);
    let slice = index / division.sums;
    let kept = index % division.sums;
    let from = slice * division.per_slice;
    let mut to = from;
    if slice < division.slices {
        to = (from + division.per_slice).min(division.length);
    }
    let lane = UNIT_POS as usize % team.units;
    let begin = from + lane;

    let mut origin = Vector::<f32, N>::zeroed();
    let mut terms = 0.0f32;
    if begin < to {
        origin = x.at(at(place(kept, begin, sizes, bits), sizes));
        terms = f32::cast_from((to - begin).div_ceil(team.units));
    }
    let mut sum = Vector::<f32, N>::zeroed();
    let mut moved = Vector::<f32, N>::zeroed();
    let mut squares = Vector::<f32, N>::zeroed();
    for summand in range_stepped(begin, to, team.units) {
        let value = x.at(at(place(kept, summand, sizes, bits), sizes));
        let off = value - origin;
        sum += value;
        moved += off;
        squares += off * off;
    }
    let divisor = Vector::<f32, N>::new(terms.max(1.0));
    let spread = squares - moved * moved / divisor;
    if comptime!(bits & 8 != 0) {
        if slice < division.slices {
            #[unroll]
            for i in 0..N::value() {
                let place = index * N::value() + i;
                sums[place] = element::<f32, N>(sum, i) / division.divisor;
                spreads[place] = positive(element::<f32, N>(spread, i)) / division.divisor;
            }
        }
    } else {
        let total = over_row::<N>(sum, Reduction::Sum, team);
        let mean = total / f32::cast_from((to - from) * N::value()).max(1.0);
        let off = sum / divisor - Vector::new(mean);
        let spread = spread + Vector::new(terms) * off * off;
        let spread = over_row::<N>(spread, Reduction::Sum, team);
        if lane == 0 && slice < division.slices {
            sums[index] = total / division.divisor;
            spreads[index] = positive(spread) / division.divisor;
        }
    }
}

/// The number of the vector at a place. `sizes` and the place count vectors in the last dimension.
#[cube]
fn at(place: Point, sizes: Point) -> usize {
    ((place.a * sizes.b + place.b) * sizes.c + place.c) * sizes.d + place.d
}

/// A sum of squares that rounding may have brought below zero; NaN stays.
#[cube]
fn positive(sum: f32) -> f32 {
    select(sum < 0.0, 0.0, sum)
}
