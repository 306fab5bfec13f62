//! How much of a difference in validation loss is chance: what F32 itself comes to with other seeds.

use crate::statistics;

/// Of F32's loss: what is taken for chance at least, for two seeds may end close to each other by chance, too.
const LEAST: f64 = 0.01;

/// Student's t for 1, 2, … degrees of freedom: fewer than 1 in 20 draws are above it.
const STUDENT: [f64; 8] = [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860];

#[derive(Clone, Debug, PartialEq)]
pub struct Yardstick {
    /// Of all runs of F32 that came to a finite end; the first one has the seed of the other precisions.
    pub losses: Vec<f64>,
    /// How far F32's runs are apart, and at least 1 %.
    pub noise: f64,
    /// Up to this a loss is as good as F32's: the noise above F32's with the same seed.
    pub good: f64,
    /// Fewer than 1 in 20 further runs of F32 would end above this, if their losses are distributed normally; `None` of
    /// one run, which tells nothing of chance.
    pub bad: Option<f64>,
}

/// A loss beside F32's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    AsGood,
    /// Above F32's, but maybe by chance.
    Undecided,
    Worse,
}

impl Yardstick {
    /// `None` of no losses.
    pub fn new(losses: Vec<f64>) -> Option<Self> {
        let (first, mean) = (losses.first()?, statistics::mean(losses.iter().copied())?);
        let apart = statistics::spread(losses.iter().copied())?;
        let noise = apart.max(LEAST * mean.abs());
        let good = first + noise;
        let prediction = statistics::deviation(&losses).map(|deviation| {
            let (runs, freedom) = (losses.len() as f64, losses.len() - 1);
            let student = STUDENT[freedom.min(STUDENT.len()) - 1];
            mean + student * deviation * (1.0 + 1.0 / runs).sqrt()
        });
        Some(Self {
            noise,
            good,
            bad: prediction.map(|prediction| prediction.max(good)),
            losses,
        })
    }

    /// In a sentence.
    pub fn said(&self) -> String {
        let Self {
            losses,
            noise,
            good,
            bad: _,
        } = self;
        match (losses.len(), statistics::spread(losses.iter().copied())) {
            (seeds @ 2.., Some(apart)) if apart == *noise => format!(
                "{seeds} seeds end {apart:.4} apart, so up to {good:.4} is as good as the first of them."
            ),
            (seeds @ 2.., Some(apart)) => format!(
                "{seeds} seeds end {apart:.4} apart, less than 1 %, so up to {good:.4} (1 % more) is as good."
            ),
            (_, _) => {
                format!(
                    "One seed tells nothing of chance; up to {good:.4} (1 % more) is taken for as good."
                )
            }
        }
    }

    pub fn measure(&self, loss: f64) -> Measured {
        match self.bad {
            _ if loss <= self.good => Measured::AsGood,
            Some(bad) if loss > bad => Measured::Worse,
            Some(_) | None => Measured::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_say_little_and_more_runs_more() {
        let bad = |losses: &[f64]| Yardstick::new(losses.into()).unwrap().bad.unwrap();
        // 1.0 + 6.314 * 0.1414 * sqrt(3/2)
        assert!((bad(&[0.9, 1.1]) - 2.0936).abs() < 1e-3);
        // 1.0 + 2.920 * 0.1 * sqrt(4/3)
        assert!((bad(&[0.9, 1.0, 1.1]) - 1.3372).abs() < 1e-3);
        // 1.0 + 1.860 * 0.1013 * sqrt(41/40)
        let many = [0.9, 1.1].repeat(20);
        assert!((bad(&many) - 1.1907).abs() < 1e-3);
    }

    #[test]
    fn a_loss_no_further_from_f32_than_its_seeds_are_apart_is_as_good() {
        let three = Yardstick::new(vec![1.0, 0.9, 1.1]).unwrap();
        let measured = [0.1, 1.1, 1.19, 1.21, 1.33, 1.4].map(|loss| three.measure(loss));
        let (good, open) = (Measured::AsGood, Measured::Undecided);
        assert_eq!(measured, [good, good, good, open, open, Measured::Worse]);
        assert_eq!(three.measure(f64::INFINITY), Measured::Worse);

        let one = Yardstick::new(vec![1.0]).unwrap();
        assert_eq!(
            [1.01, 1.02, 9.0].map(|loss| one.measure(loss)),
            [good, open, open]
        );
        assert_eq!(Yardstick::new(vec![]), None);
    }

    #[test]
    fn seeds_that_happen_to_agree_do_not_make_one_percent_worse() {
        let agreeing = Yardstick::new(vec![-1.0, -1.0]).unwrap();
        assert_eq!(
            (agreeing.noise, agreeing.good, agreeing.bad),
            (0.01, -0.99, Some(-0.99))
        );
    }
}
