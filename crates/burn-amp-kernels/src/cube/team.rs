//! Teams: how the units of a launch share out the rows of tensors.
//!
//! A team is a power of two of neighbouring units that has one row at a time. Of that row each unit has every
//! `units`-th vector, so that what a team reads at once is contiguous. Of short rows a plane has several, a long row has up
//! to [`MAX_UNITS`]. Every unit of a cube takes part in every reduction; a team without a row has one of length 0.

use burn_cubecl::CubeRuntime;
use cubecl::{features::Plane, prelude::*, server::CubeCountSelection};

/// Units of a team at most. That leaves each 128 registers of a streaming multiprocessor's 65536.
const MAX_UNITS: usize = 512;
/// Units of a cube, if a team is not larger.
const CUBE_UNITS: usize = 128;

/// The units of a row, as kernels are compiled for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Team {
    /// Units of a team, a power of two.
    pub units: usize,
    /// Teams of a cube.
    pub per_cube: usize,
    /// Neighbouring units between which values can be shuffled; 1 if the device has no planes.
    plane: usize,
    /// Vectors of a row that a unit keeps in registers, so that it reads them once. 0 if rows are too long for that:
    /// every pass reads them again.
    pub kept: usize,
}

impl Team {
    /// A team for rows of `vectors` vectors of which a unit can keep `most`.
    pub fn new<R: CubeRuntime>(client: &ComputeClient<R>, vectors: usize, most: usize) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        // Planes may be wider than the minimum, but units whose numbers differ in bits below it are in one plane.
        let plane = match properties.features.plane.contains(Plane::Ops) {
            true => hardware.plane_size_min as usize,
            false => 1,
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

    /// The launch of `count` teams at least.
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

    /// Bits of a unit's number in which its neighbours by shuffle differ from it.
    fn shuffles(&self) -> u32 {
        self.units.min(self.plane).ilog2()
    }

    /// Bits in which its neighbours through shared memory differ.
    fn exchanges(&self) -> u32 {
        self.units.ilog2() - self.shuffles()
    }
}

/// The number of this unit's team.
#[cube]
pub(crate) fn team_index(#[comptime] team: Team) -> usize {
    CUBE_POS * team.per_cube + UNIT_POS as usize / team.units
}

/// What a reduction over a row computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Sum,
    Max,
}

/// Reduces the vectors that the units of each team have to one number, which all of the team get.
#[cube]
pub(crate) fn over_row<N: Size>(
    values: Vector<f32, N>,
    #[comptime] reduction: Reduction,
    #[comptime] team: Team,
) -> f32 {
    let mut value = values[0];
    #[unroll]
    for i in 1..N::value() {
        value = both(value, values[i], reduction);
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
        // Two halves in turn: who is a level ahead does not overwrite what others still read.
        let mut shared = SharedMemory::<f32>::new(comptime!(2 * units));
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
