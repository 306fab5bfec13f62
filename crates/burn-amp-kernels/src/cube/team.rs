//! Teams of units, each of which works on one row at a time.
//!
//! A team is a number of neighbouring units, a power of two. Each unit has every `units`-th vector of the team's row,
//! so that the vectors which a team reads at once are contiguous. If rows are short, a plane has several teams; a long
//! row gets a team of up to [`MAX_UNITS`]. Every unit of a cube takes part in every reduction, so a team without a row
//! acts as if it had one of length 0.

use super::names::{element, shared};
use burn_cubecl::CubeRuntime;
use cubecl::{features::Plane, prelude::*, server::CubeCountSelection};

/// The most units of a team: each then has 128 of the 65536 registers of a streaming multiprocessor.
const MAX_UNITS: usize = 512;
/// The units of a cube, unless a team is larger.
const CUBE_UNITS: usize = 128;

/// The division of rows among units for which a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Team {
    /// The units of a team, a power of two.
    pub units: usize,
    /// The teams of a cube.
    pub per_cube: usize,
    /// The number of neighbouring units that can shuffle values; 1 if the device has no planes.
    plane: usize,
    /// The vectors of a row that a unit keeps in registers, so that it reads them once. 0 if rows are too long for
    /// that; then every loop over the row reads them again.
    pub kept: usize,
}

impl Team {
    /// Makes a team for rows of `vectors` vectors, of which a unit can keep `most`.
    pub fn new<R: CubeRuntime>(client: &ComputeClient<R>, vectors: usize, most: usize) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        // Planes may be wider than the minimum. Units whose numbers differ only in bits below it are in one plane.
        let plane = if properties.features.plane.contains(Plane::Ops) {
            hardware.plane_size_min as usize
        } else {
            1
        };
        let limit = MAX_UNITS.min(hardware.max_units_per_cube as usize);
        let mut units = vectors.next_power_of_two().min(plane);
        while vectors.div_ceil(units) > most && units * 2 <= limit {
            units *= 2;
        }
        let share = vectors.div_ceil(units);
        Self {
            units,
            per_cube: (CUBE_UNITS.min(limit) / units).max(1),
            plane,
            kept: if share <= most { share } else { 0 },
        }
    }

    /// Returns the launch of at least `count` teams.
    pub fn launch<R: CubeRuntime>(
        &self,
        client: &ComputeClient<R>,
        count: usize,
    ) -> (CubeCount, CubeDim) {
        let cubes = u32::try_from(count.div_ceil(self.per_cube))
            .expect("there are less than 2^32 cubes of rows");
        (
            CubeCountSelection::new(client, cubes).cube_count(),
            CubeDim::new_1d((self.units * self.per_cube) as u32),
        )
    }

    /// Returns how many bits of a unit's number are exchanged by shuffles.
    fn shuffles(&self) -> u32 {
        self.units.min(self.plane).ilog2()
    }

    /// Returns how many of the remaining bits are exchanged through shared memory.
    fn exchanges(&self) -> u32 {
        self.units.ilog2() - self.shuffles()
    }
}

/// Returns the number of this unit's team.
#[cube]
pub(crate) fn team_index(#[comptime] team: Team) -> usize {
    CUBE_POS * team.per_cube + UNIT_POS as usize / team.units
}

/// The operation of a reduction over a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Sum,
    Max,
}

/// Reduces the vectors of a team's units to one number, which every unit of the team gets.
#[cube]
pub(crate) fn over_row<N: Size>(
    values: Vector<f32, N>,
    #[comptime] reduction: Reduction,
    #[comptime] team: Team,
) -> f32 {
    let mut value = element::<f32, N>(values, 0usize);
    #[unroll]
    for i in 1..N::value() {
        value = both(value, element::<f32, N>(values, i), reduction);
    }
    over_team(value, reduction, team)
}

/// A butterfly: after each level, units that differ in one more bit of their number have the same value.
#[cube]
fn over_team(value: f32, #[comptime] reduction: Reduction, #[comptime] team: Team) -> f32 {
    let mut value = value;
    #[unroll]
    for level in 0..comptime!(team.shuffles()) {
        let other = plane_shuffle_xor(value, comptime!(1u32 << level).runtime());
        value = both(value, other, reduction);
    }
    if comptime!(team.exchanges() > 0) {
        let units = comptime!(team.units * team.per_cube);
        // Levels use two halves in turn: a unit that is a level ahead overwrites nothing that others still read.
        let mut shared = shared::<f32>(comptime!(2 * units));
        #[unroll]
        for level in 0..comptime!(team.exchanges()) {
            let half = comptime!((level % 2) as usize * units);
            let bit = comptime!((team.plane as u32) << level);
            shared[half + UNIT_POS as usize] = value;
            sync_cube();
            value = both(value, shared[half + (UNIT_POS ^ bit) as usize], reduction);
        }
        sync_cube();
    }
    value
}

#[cube]
fn both(a: f32, b: f32, #[comptime] reduction: Reduction) -> f32 {
    match reduction {
        Reduction::Sum => a + b,
        Reduction::Max => max(a, b),
    }
}
