//! Notices a scheduler that moves the learning rate on in skipped steps.

use burn::optim::LearningRate;
use burn_amp_decorator::warn::Warning;

/// So many skipped steps in which the rate moved on are worth a warning. The search for the first loss scale skips one or two.
const MANY: u32 = 10;

/// The learning rate of an optimizer, as far as skipped steps are concerned.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// The rate of the last step, if it was skipped.
    skipped: Option<LearningRate>,
    /// The number of skipped steps after which the rate was another one.
    moved: u32,
}

impl Rate {
    /// Sees the rate of a step, which was made or skipped.
    pub(super) fn stepped(&mut self, lr: LearningRate, is_made: bool) {
        static MOVED: Warning = Warning::new("a-learning-rate-that-moves-in-skipped-steps");

        if self.skipped.is_some_and(|skipped| skipped != lr) {
            self.moved += 1;
            if self.moved == MANY {
                MOVED.give(|| {
                    format!(
                        "{MANY} steps were skipped, and the learning rate moved on in each: the schedule is ahead of the steps \
                         that were made. `HoldOnSkip::new(scheduler, loss_scale)` holds it"
                    )
                });
            }
        }
        self.skipped = (!is_made).then_some(lr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_is_held_in_skipped_steps_counts_as_none() {
        let mut rate = Rate::default();
        for (lr, is_made) in [
            (0.1, true),
            (0.2, false),
            (0.2, true),
            (0.3, false),
            (0.4, false),
            (0.5, true),
            (0.6, true),
        ] {
            rate.stepped(lr, is_made);
        }
        assert_eq!(rate.moved, 2);
    }
}
