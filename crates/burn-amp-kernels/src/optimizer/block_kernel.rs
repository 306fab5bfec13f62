//! The step of parameters whose moments are in blocks of 8 bits.

use cubecl::prelude::*;

use super::{
    block_code::{UNITS, base_of_block, decoded, encoded_word, larger},
    blocks::{BLOCK, BLOCK_WORDS, LANES},
    code::Code,
    element::{Moments, Step, Stored, number, step_or_copy},
    place::Place,
};
use crate::cube::names::{SharedOf, TensorView};

/// Where a unit's word lies, and its elements.
#[derive(CubeType, Clone, Copy)]
struct Spot {
    /// Whether there is such a block.
    is_there: bool,
    /// The word in its block.
    word: usize,
    /// The place of the word in a tensor of words.
    place: usize,
    /// The place of the base of its block.
    base_place: usize,
    /// The first of the elements.
    start: usize,
}

#[cube]
fn spot(tile: usize, length: usize) -> Spot {
    let blocks = length.div_ceil(BLOCK);
    let word = UNIT_POS as usize % BLOCK_WORDS;
    let block = tile * (UNITS / BLOCK_WORDS) + UNIT_POS as usize / BLOCK_WORDS;
    Spot {
        is_there: block < blocks,
        word,
        place: block * BLOCK_WORDS + word,
        base_place: blocks * BLOCK_WORDS + block,
        start: block * BLOCK + word,
    }
}

/// Steps the elements of one word of each unit, whose moments are in blocks of 8 bits. The blocks of the tile are those of all
/// units of the cube.
#[cube]
pub(super) fn step_blocks<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &TensorView<G>,
    stored: &mut Stored<P, L>,
    step: Step,
    tile: usize,
    shared: &mut SharedOf<u32>,
    #[comptime] code: Code,
) {
    let count = comptime!(code.count);
    let spot = spot(tile, gradients.shape());
    let mut values = Array::<f32>::new(comptime!(3 * LANES));
    let mut words = Array::<u32>::new(3usize);
    let mut bases = Array::<u32>::new(3usize);
    let mut largest = Array::<u32>::new(3usize);
    #[unroll]
    for at in 0..3usize {
        words[at] = 0u32;
        bases[at] = 0u32;
        largest[at] = 0u32;
    }
    if spot.is_there {
        #[unroll]
        for at in 0..count {
            words[at] = stored.words.index(at)[spot.place];
            bases[at] = stored.words.index(at)[spot.base_place];
        }
    }
    #[unroll]
    for lane in 0..LANES {
        let side = comptime!(lane as u32);
        let before = Moments {
            first: decoded(words[0], bases[0], side, Place::First),
            second: decoded(words[1], bases[1], side, Place::Other),
            largest: decoded(words[2], bases[2], side, Place::Other),
        };
        let position = spot.start + lane * BLOCK_WORDS;
        let after = step_or_copy::<G, P, L>(gradients, stored, before, step, position, code);
        #[unroll]
        for at in 0..count {
            let value = number(after, at);
            values[at * LANES + lane] = value;
            largest[at] = larger(largest[at], value);
        }
    }
    let unit = UNIT_POS as usize;
    #[unroll]
    for at in 0..count {
        shared[unit + at * UNITS] = largest[at];
    }
    sync_cube();
    #[unroll]
    for at in 0..count {
        bases[at] = base_of_block(shared, at * UNITS, comptime!(Place::at(at)));
    }
    // The next turn writes to what others may still read.
    sync_cube();
    if step.is_made && spot.is_there {
        write_words::<P, L>(stored, &values, &bases, spot, code);
    }
}

/// Writes the words of the moments, of which each unit has one per moment, and the bases of their blocks.
#[cube]
fn write_words<P: Numeric, L: Numeric>(
    stored: &mut Stored<P, L>,
    values: &Array<f32>,
    bases: &Array<u32>,
    spot: Spot,
    #[comptime] code: Code,
) {
    #[unroll]
    for at in 0..comptime!(code.count) {
        let word = encoded_word(values, at, bases[at], spot.start, stored.own.key);
        let words = stored.words.index_mut(at);
        words[spot.place] = word;
        if spot.word == 0 {
            words[spot.base_place] = bases[at];
        }
    }
}
