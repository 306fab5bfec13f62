//! Which batch a step is fed.

use zoo::Draw;

/// The batch of step `step`, counted from 0, of a run with `seed`: another one in every step.
pub fn train(items: usize, seed: u32, step: usize) -> Draw {
    Draw::train(items, u64::from(seed) << 32 | step as u64)
}

/// The same batches for every run: at least `items` in batches of `batch_size`.
pub fn validation(items: usize, batch_size: usize) -> impl Iterator<Item = Draw> {
    (0..items.div_ceil(batch_size) as u64).map(move |index| Draw::valid(batch_size, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_of_no_seed_sees_the_batch_of_another() {
        let seeds: Vec<u64> = [(0, 0), (0, 1), (1, 0), (1, 1)]
            .map(|(seed, step)| train(8, seed, step).seed)
            .into();
        assert_eq!(seeds, [0, 1, 1 << 32, (1 << 32) + 1]);
    }

    #[test]
    fn validates_on_whole_batches() {
        let draws: Vec<Draw> = validation(9, 4).collect();
        assert_eq!(draws, [0, 1, 2].map(|seed| Draw::valid(4, seed)));
    }
}
