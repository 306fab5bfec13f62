//! A play to read: *As You Like It*, see `data/README.md` for source and licence.
//!
//! A token is a character, numbered by how frequent it is: 0 is the most frequent one. In a vocabulary smaller than the
//! alphabet the last token represents all rarer characters; in a larger one the remaining tokens are unused.

use std::{ops::Range, sync::LazyLock};

use rand::{RngExt, rngs::StdRng};

use crate::Part;

const TEXT: &[u8] = include_bytes!("../data/as-you-like-it.txt");

/// The share of the text, from its start, to train on; the rest is for validation.
const TRAIN_PERCENT: usize = 90;

/// The whole text, each character replaced by its rank by frequency.
static RANKS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut counts = [0u32; 256];
    TEXT.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
    bytes.sort_by_key(|byte| u32::MAX - counts[usize::from(*byte)]);

    let mut ranks = [0u8; 256];
    (0..=u8::MAX)
        .zip(&bytes)
        .for_each(|(rank, byte)| ranks[usize::from(*byte)] = rank);
    TEXT.iter().map(|byte| ranks[usize::from(*byte)]).collect()
});

/// Returns `length` tokens in a row from a random place of `part`, all below `vocab_size`.
///
/// # Panics
///
/// Panics if the part has fewer than `length` tokens.
pub(crate) fn passage(part: Part, length: usize, vocab_size: usize, rng: &mut StdRng) -> Vec<i32> {
    let Range { start, end } = range(part);
    assert!(
        length <= end - start,
        "a passage of {length} tokens; the {part:?} part of the text has {}",
        end - start
    );
    let first = rng.random_range(start..=end - length);
    RANKS[first..first + length]
        .iter()
        .map(|rank| usize::from(*rank).min(vocab_size - 1) as i32)
        .collect()
}

fn range(part: Part) -> Range<usize> {
    let border = TEXT.len() * TRAIN_PERCENT / 100;
    match part {
        Part::Train => 0..border,
        Part::Valid => border..TEXT.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commonest_character_is_the_space() {
        let spaces = |(byte, rank): (&u8, &u8)| (*byte == b' ') == (*rank == 0);
        assert!(TEXT.iter().zip(RANKS.iter()).all(spaces));
    }

    #[test]
    fn the_alphabet_has_68_characters_of_which_64_tokens_merge_the_rarest_5() {
        let alphabet = 1 + RANKS.iter().max().copied().unwrap_or(0);
        let merged = RANKS.iter().filter(|rank| **rank >= 63).count();
        assert_eq!((alphabet, merged), (68, 40));
    }
}
