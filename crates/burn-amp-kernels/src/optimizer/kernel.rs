//! The kernel: how its units go over the parameters of a launch.

use cubecl::{prelude::*, std::tensor::layout::linear::LinearView};

use super::{
    block_code::{UNITS, base_of_block, decoded, encoded, larger},
    blocks::{BLOCK, BLOCK_WORDS, LANES},
    code::Code,
    element::{Moved, Numbers, Own, drawn, mixed, moved, unscaled, weight_at, write},
    moment::MomentFormat,
    place::Place,
};
use crate::loss_scale::{OVERFLOWED, SCALE};

/// One of the two BF16 of a word, widened.
#[cube]
fn unpacked(word: u32, #[comptime] lane: u32) -> f32 {
    let bits = if comptime!(lane == 0) {
        word << 16u32
    } else {
        word & 0xffff_0000u32
    };
    f32::from_bits(bits)
}

/// The bits of a rounded number at their place in a word.
#[cube]
fn packed(bits: u32, #[comptime] lane: u32) -> u32 {
    if comptime!(lane == 0) {
        bits >> 16u32
    } else {
        bits
    }
}

/// Every unit strides over all parameters.
///
/// Gradients have any layout; all other tensors are contiguous, and as long, except that of moments in words. Lists of
/// what the code does not need are empty.
#[cube(launch)]
pub(super) fn optimizer_kernel<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &Sequence<LinearView<G>>,
    parameters: &mut Sequence<Array<P>>,
    masters: &mut Sequence<Array<f32>>,
    offsets: &mut Sequence<Array<i16>>,
    first_moments: &mut Sequence<Array<f32>>,
    second_moments: &mut Sequence<Array<f32>>,
    largest_moments: &mut Sequence<Array<f32>>,
    first_words: &mut Sequence<Array<u32>>,
    second_words: &mut Sequence<Array<u32>>,
    largest_words: &mut Sequence<Array<u32>>,
    lows: &mut Sequence<Array<L>>,
    owns: &Sequence<Own>,
    scaled_by: &Sequence<Array<f32>>,
    unless_overflowed: &Sequence<Array<f32>>,
    clip: &Sequence<Array<f32>>,
    numbers: Numbers,
    #[comptime] code: Code,
    #[define(G)] _gradient: StorageType,
    #[define(P)] _parameter: StorageType,
    #[define(L)] _low: StorageType,
) {
    let mut state = f32::new(0.0);
    if comptime!(code.may_overflow) {
        state = unless_overflowed.index(0usize)[OVERFLOWED];
    }
    let is_made = state <= 0.0;
    let mut unscale = f32::new(1.0);
    if comptime!(code.is_scaled) {
        unscale = 1.0 / scaled_by.index(0usize)[SCALE];
    }
    let mut clipping = f32::new(1.0);
    if comptime!(code.is_clipped) {
        clipping = clip.index(0usize)[0];
    }
    if comptime!(code.moments == MomentFormat::Bits8) {
        let mut shared = SharedMemory::<u32>::new(comptime!(3 * UNITS));
        #[unroll]
        for at in 0..gradients.len() {
            let gradients = gradients.index(at);
            let own = *owns.index(at);
            let length = gradients.shape();
            let blocks = length.div_ceil(BLOCK);
            let word = UNIT_POS as usize % BLOCK_WORDS;
            let mut tile = CUBE_POS;
            while tile * (UNITS / BLOCK_WORDS) < blocks {
                let block = tile * (UNITS / BLOCK_WORDS) + UNIT_POS as usize / BLOCK_WORDS;
                let is_block = block < blocks;
                let place = block * BLOCK_WORDS + word;
                let base_place = blocks * BLOCK_WORDS + block;
                let mut firsts = Array::<f32>::new(LANES);
                let mut seconds = Array::<f32>::new(LANES);
                let mut largests = Array::<f32>::new(LANES);
                let mut largest_1 = 0u32;
                let mut largest_2 = 0u32;
                let mut largest_3 = 0u32;
                let mut old_1 = 0u32;
                let mut old_2 = 0u32;
                let mut old_3 = 0u32;
                let mut base_1 = 0u32;
                let mut base_2 = 0u32;
                let mut base_3 = 0u32;
                if is_block && own.is_first == 0u32 {
                    old_1 = first_words.index(at)[place];
                    base_1 = first_words.index(at)[base_place];
                    if comptime!(code.is_adam) {
                        old_2 = second_words.index(at)[place];
                        base_2 = second_words.index(at)[base_place];
                    }
                    if comptime!(code.amsgrad) {
                        old_3 = largest_words.index(at)[place];
                        base_3 = largest_words.index(at)[base_place];
                    }
                }
                #[unroll]
                for lane in 0..LANES {
                    let side = comptime!(lane as u32);
                    let position = block * BLOCK + lane * BLOCK_WORDS + word;
                    let mut first = f32::new(0.0);
                    let mut second = f32::new(0.0);
                    let mut largest = f32::new(0.0);
                    if position < length {
                        let weight =
                            weight_at::<P>(parameters, masters, offsets, at, position, code);
                        let mut stored = weight;
                        if comptime!(code.has_low && (code.has_master || code.has_offset)) {
                            stored = f32::cast_from(parameters.index(at)[position]);
                        }
                        if is_made {
                            let gradient = f32::cast_from(gradients[position]);
                            let gradient = unscaled(gradient, own, unscale, clipping, code);
                            let before = Moved {
                                weight,
                                first: decoded(old_1, base_1, side, Place::First),
                                second: decoded(old_2, base_2, side, Place::Other),
                                largest: decoded(old_3, base_3, side, Place::Other),
                            };
                            let after = moved(before, gradient, own, numbers, code);
                            first = after.first;
                            second = after.second;
                            largest = after.largest;
                            let draw = mixed(position as u32 ^ own.key);
                            stored = write::<P>(
                                after.weight,
                                draw,
                                parameters,
                                masters,
                                offsets,
                                at,
                                position,
                                code,
                            );
                        }
                        if comptime!(code.has_low) {
                            lows.index_mut(at)[position] = L::cast_from(stored);
                        }
                    }
                    firsts[lane] = first;
                    seconds[lane] = second;
                    largests[lane] = largest;
                    largest_1 = larger(largest_1, first);
                    largest_2 = larger(largest_2, second);
                    largest_3 = larger(largest_3, largest);
                }
                let unit = UNIT_POS as usize;
                shared[unit] = largest_1;
                shared[unit + UNITS] = largest_2;
                shared[unit + 2 * UNITS] = largest_3;
                sync_cube();
                base_1 = base_of_block(&shared, 0usize, Place::First);
                if comptime!(code.is_adam) {
                    base_2 = base_of_block(&shared, UNITS, Place::Other);
                }
                if comptime!(code.amsgrad) {
                    base_3 = base_of_block(&shared, 2 * UNITS, Place::Other);
                }
                // The next turn writes to what others may still read.
                sync_cube();
                if is_made && is_block {
                    let mut new_1 = 0u32;
                    let mut new_2 = 0u32;
                    let mut new_3 = 0u32;
                    #[unroll]
                    for lane in 0..LANES {
                        let side = comptime!(lane as u32);
                        let position = block * BLOCK + lane * BLOCK_WORDS + word;
                        let draw = mixed(position as u32 ^ own.key);
                        let random_1 = draw & 0xf_ffffu32;
                        let random_2 = mixed(draw ^ 0xffff_ffffu32) >> 12u32;
                        new_1 |= encoded(firsts[lane], base_1, random_1, side, Place::First);
                        new_2 |= encoded(seconds[lane], base_2, random_2, side, Place::Other);
                        new_3 |= encoded(largests[lane], base_3, random_2, side, Place::Other);
                    }
                    first_words.index_mut(at)[place] = new_1;
                    if comptime!(code.is_adam) {
                        second_words.index_mut(at)[place] = new_2;
                    }
                    if comptime!(code.amsgrad) {
                        largest_words.index_mut(at)[place] = new_3;
                    }
                    if word == 0 {
                        first_words.index_mut(at)[base_place] = base_1;
                        if comptime!(code.is_adam) {
                            second_words.index_mut(at)[base_place] = base_2;
                        }
                        if comptime!(code.amsgrad) {
                            largest_words.index_mut(at)[base_place] = base_3;
                        }
                    }
                }
                tile += CUBE_COUNT;
            }
        }
    } else {
        let has_words = comptime!(code.moments == MomentFormat::Bf16);
        let has_moments = comptime!(code.is_adam || code.has_momentum);
        let lanes = comptime!(if has_words { 2usize } else { 1usize });
        #[unroll]
        for at in 0..gradients.len() {
            let gradients = gradients.index(at);
            let own = *owns.index(at);
            let length = gradients.shape();
            let mut turn = ABSOLUTE_POS;
            while turn * lanes < length {
                let mut first_word = 0u32;
                let mut second_word = 0u32;
                let mut largest_word = 0u32;
                #[unroll]
                for lane in 0..lanes {
                    let position = turn * lanes + lane;
                    let side = comptime!(lane as u32);
                    if position < length {
                        let weight =
                            weight_at::<P>(parameters, masters, offsets, at, position, code);
                        let mut stored = weight;
                        if comptime!(code.has_low && (code.has_master || code.has_offset)) {
                            stored = f32::cast_from(parameters.index(at)[position]);
                        }
                        if is_made {
                            let gradient = f32::cast_from(gradients[position]);
                            let gradient = unscaled(gradient, own, unscale, clipping, code);
                            let mut first = f32::new(0.0);
                            let mut second = f32::new(0.0);
                            let mut largest = f32::new(0.0);
                            if own.is_first == 0u32 {
                                if comptime!(has_moments) {
                                    first = if comptime!(has_words) {
                                        unpacked(first_words.index(at)[turn], side)
                                    } else {
                                        first_moments.index(at)[position]
                                    };
                                }
                                if comptime!(code.is_adam) {
                                    second = if comptime!(has_words) {
                                        unpacked(second_words.index(at)[turn], side)
                                    } else {
                                        second_moments.index(at)[position]
                                    };
                                }
                                if comptime!(code.amsgrad) {
                                    largest = if comptime!(has_words) {
                                        unpacked(largest_words.index(at)[turn], side)
                                    } else {
                                        largest_moments.index(at)[position]
                                    };
                                }
                            }
                            let before = Moved {
                                weight,
                                first,
                                second,
                                largest,
                            };
                            let after = moved(before, gradient, own, numbers, code);
                            let draw = mixed(position as u32 ^ own.key);
                            if comptime!(has_words) {
                                let random_1 = draw & 0xffffu32;
                                let random_2 = draw >> 16u32;
                                first_word |= packed(drawn(after.first, random_1), side);
                                second_word |= packed(drawn(after.second, random_2), side);
                                largest_word |= packed(drawn(after.largest, random_2), side);
                            } else {
                                if comptime!(has_moments) {
                                    first_moments.index_mut(at)[position] = after.first;
                                }
                                if comptime!(code.is_adam) {
                                    second_moments.index_mut(at)[position] = after.second;
                                }
                                if comptime!(code.amsgrad) {
                                    largest_moments.index_mut(at)[position] = after.largest;
                                }
                            }
                            stored = write::<P>(
                                after.weight,
                                draw,
                                parameters,
                                masters,
                                offsets,
                                at,
                                position,
                                code,
                            );
                        }
                        if comptime!(code.has_low) {
                            lows.index_mut(at)[position] = L::cast_from(stored);
                        }
                    }
                }
                if is_made {
                    if comptime!(has_words) {
                        first_words.index_mut(at)[turn] = first_word;
                    }
                    if comptime!(has_words && code.is_adam) {
                        second_words.index_mut(at)[turn] = second_word;
                    }
                    if comptime!(has_words && code.amsgrad) {
                        largest_words.index_mut(at)[turn] = largest_word;
                    }
                }
                turn += CUBE_COUNT * CUBE_DIM as usize;
            }
        }
    }
}
