//! Rows inside a kernel: which part of a row a unit has.

use cubecl::prelude::*;

use super::{
    names::{OwnedBuffer, SameBuffer, same},
    team::{Team, team_index},
};

/// The rows that a kernel goes over, and the division of each among units.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(crate) struct AllRows {
    pub count: usize,
    /// The length of each in vectors.
    pub length: usize,
    #[cube(comptime)]
    pub team: Team,
}

#[cube]
impl AllRows {
    /// Returns the row of this unit's team, if each team has one.
    pub fn of_team(&self) -> Row {
        self.at(team_index(comptime!(self.team)))
    }

    /// Returns the row with this number.
    pub fn at(&self, index: usize) -> Row {
        let team = comptime!(self.team);
        Row {
            index: index.min(self.count - 1),
            length: select(index < self.count, self.length, 0),
            lane: UNIT_POS as usize % team.units,
            team,
        }
    }
}

/// A row, and the place of this unit in the row's team.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Row {
    /// The number of the row. A team without a row has the number of another one, so that it can be read.
    pub index: usize,
    /// The length in vectors; 0 for a team without a row.
    pub length: usize,
    lane: usize,
    #[cube(comptime)]
    pub team: Team,
}

#[cube]
impl Row {
    /// Returns the most vectors that a unit of the team has; a constant if they are kept.
    pub fn steps(&self) -> usize {
        if comptime!(self.team.kept > 0) {
            comptime!(self.team.kept).runtime()
        } else {
            self.length.div_ceil(self.team.units)
        }
    }

    /// Returns the position in the row of this unit's vector at a step.
    pub fn column(&self, step: usize) -> usize {
        self.lane + step * self.team.units
    }

    /// Returns whether this unit has a vector at a step.
    pub fn has(&self, step: usize) -> bool {
        self.column(step) < self.length
    }

    /// Returns the position of this unit's vector at a step; where it has none, that of the row's first one.
    pub fn readable(&self, step: usize) -> usize {
        select(self.has(step), self.column(step), 0)
    }

    /// Returns whether this unit writes the numbers of which there is one per row.
    pub fn leads(&self) -> bool {
        self.lane == 0 && self.length > 0
    }
}

/// A tensor whose rows are equally far apart.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct RowsOf<F: Float, N: Size> {
    memory: OwnedBuffer<Vector<F, N>>,
    /// The vectors from the start of one row to the start of the next.
    pitch: usize,
}

/// The part of a row of one tensor that this unit has, in F32.
#[derive(CubeType)]
pub(crate) struct Share<F: Float, N: Size> {
    row: Row,
    memory: SameBuffer<Vector<F, N>>,
    /// Where the row begins in memory, in vectors.
    start: usize,
    registers: Array<Vector<f32, N>>,
    #[cube(comptime)]
    pub kept: usize,
}

#[cube]
impl<F: Float, N: Size> RowsOf<F, N> {
    /// Reads the vectors of a row that are kept.
    ///
    /// All of them are read, where the unit has none another one: behind a branch each load would wait for the one
    /// before. A single one stays behind its branch; otherwise, in a row of one element, a compiler may see that the
    /// largest element is subtracted from itself, and 0 is not what NaN leaves.
    pub fn share(&self, row: Row) -> Share<F, N> {
        let kept = comptime!(row.team.kept);
        let memory = same::<Vector<F, N>>(&self.memory);
        let start = row.index * self.pitch;
        let mut registers = Array::new(comptime!(kept.max(1)));
        #[unroll]
        for step in 0..kept {
            if comptime!(kept > 1) || row.has(step) {
                registers[step] = Vector::cast_from(memory[start + row.readable(step)]);
            }
        }
        Share::<F, N> {
            row,
            memory,
            start,
            registers,
            kept,
        }
    }
}

#[cube]
impl<F: Float, N: Size> Share<F, N> {
    /// Replaces the vector that is kept for a step, if vectors are kept.
    pub fn keep(&mut self, step: usize, vector: Vector<f32, N>) {
        if comptime!(self.kept > 0) {
            self.registers[step] = vector;
        }
    }

    /// Returns the row's first vector.
    pub fn first(&self) -> Vector<f32, N> {
        Vector::cast_from(self.memory[self.start])
    }

    /// Returns the vector of a step at which this unit has one.
    pub fn at(&self, step: usize) -> Vector<f32, N> {
        if comptime!(self.kept > 0) {
            self.registers[step]
        } else {
            Vector::cast_from(self.memory[self.start + self.row.column(step)])
        }
    }
}
