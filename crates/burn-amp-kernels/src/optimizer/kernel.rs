//! The kernel: how its units go over the parameters of a launch.

use cubecl::prelude::*;

use super::{
    block_code::UNITS,
    block_kernel::step_blocks,
    blocks::{BLOCK, BLOCK_WORDS},
    code::Code,
    element::{Moments, Numbers, Step, Stored, number, step_or_copy},
    moment::MomentFormat,
    random::{draw, drawn},
    rounding::LOW,
};
use crate::cube::names::{OwnedBuffer, TensorView, shared};
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

/// The states of the loss scale, and a factor. Those that the code does not need are missing.
#[derive(CubeType, CubeLaunch)]
pub(super) struct States {
    scaled_by: Sequence<OwnedBuffer<f32>>,
    unless_overflowed: Sequence<OwnedBuffer<f32>>,
    clip: Sequence<OwnedBuffer<f32>>,
}

/// Every unit strides over all parameters. Gradients have any layout.
#[cube(launch)]
pub(super) fn optimizer_kernel<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &Sequence<TensorView<G>>,
    stored: &mut Sequence<Stored<P, L>>,
    states: &States,
    numbers: Numbers,
    #[comptime] code: Code,
    #[define(G, P, L)] _dtypes: [StorageType; 3],
) {
    let mut state = f32::new(0.0);
    if comptime!(code.may_overflow) {
        state = states.unless_overflowed.index(0usize)[OVERFLOWED];
    }
    let mut unscale = f32::new(1.0);
    if comptime!(code.is_scaled) {
        unscale = 1.0 / states.scaled_by.index(0usize)[SCALE];
    }
    let mut clipping = f32::new(1.0);
    if comptime!(code.is_clipped) {
        clipping = states.clip.index(0usize)[0];
    }
    let step = Step {
        is_made: state <= 0.0,
        unscale,
        clipping,
        numbers,
    };
    if comptime!(code.moments == MomentFormat::Bits8) {
        let mut shared = shared::<u32>(comptime!(3 * UNITS));
        #[unroll]
        for at in 0..gradients.len() {
            let gradients = gradients.index(at);
            let blocks = gradients.shape().div_ceil(BLOCK);
            let mut tile = CUBE_POS;
            while tile * (UNITS / BLOCK_WORDS) < blocks {
                let stored = stored.index_mut(at);
                step_blocks::<G, P, L>(gradients, stored, step, tile, &mut shared, code);
                tile += CUBE_COUNT;
            }
        }
    } else {
        #[unroll]
        for at in 0..gradients.len() {
            step_elements::<G, P, L>(gradients.index(at), stored.index_mut(at), step, code);
        }
    }
}

/// Steps the elements of this unit one by one, or in BF16 two by two, which share a word.
#[cube]
fn step_elements<G: Numeric, P: Numeric, L: Numeric>(
    gradients: &TensorView<G>,
    stored: &mut Stored<P, L>,
    step: Step,
    #[comptime] code: Code,
) {
    let has_words = comptime!(code.moments == MomentFormat::Bf16);
    let lanes = comptime!(if has_words { 2usize } else { 1usize });
    let length = gradients.shape();
    let mut turn = ABSOLUTE_POS;
    let mut words = Array::<u32>::new(3usize);
    while turn * lanes < length {
        #[unroll]
        for at in 0..3usize {
            words[at] = 0u32;
        }
        #[unroll]
        for lane in 0..lanes {
            let position = turn * lanes + lane;
            let side = comptime!(lane as u32);
            let before = Moments {
                first: moment::<P, L>(stored, 0usize, turn, side, code),
                second: moment::<P, L>(stored, 1usize, turn, side, code),
                largest: moment::<P, L>(stored, 2usize, turn, side, code),
            };
            let after = step_or_copy::<G, P, L>(gradients, stored, before, step, position, code);
            if comptime!(has_words) {
                let draw = draw(position, stored.own.key);
                #[unroll]
                for at in 0..comptime!(code.count) {
                    let random = if comptime!(at == 0) {
                        draw & 0xffffu32
                    } else {
                        draw >> 16u32
                    };
                    words[at] |= packed(drawn(number(after, at), random, LOW), side);
                }
            } else if step.is_made {
                #[unroll]
                for at in 0..comptime!(code.count) {
                    stored.moments.index_mut(at)[turn] = number(after, at);
                }
            }
        }
        if comptime!(has_words) {
            let is_made = step.is_made;
            if is_made {
                #[unroll]
                for at in 0..comptime!(code.count) {
                    stored.words.index_mut(at)[turn] = words[at];
                }
            }
        }
        turn += CUBE_COUNT * CUBE_DIM as usize;
    }
}

/// Reads one of the moments before the step; 0 if the rule does not have it. Those before a first step are not initialized,
/// and the step does not use them.
#[cube]
fn moment<P: Numeric, L: Numeric>(
    stored: &mut Stored<P, L>,
    #[comptime] at: usize,
    turn: usize,
    #[comptime] side: u32,
    #[comptime] code: Code,
) -> f32 {
    if comptime!(at >= code.count) {
        f32::new(0.0)
    } else if comptime!(code.moments == MomentFormat::Bf16) {
        unpacked(stored.words.index(at)[turn], side)
    } else {
        stored.moments.index(at)[turn]
    }
}
