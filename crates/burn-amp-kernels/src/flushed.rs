//! How much of a gradient F16 flushes to zero, in a backward pass that is looked at.
//!
//! A gradient that F16 has flushed is not there to be counted, and zeros have many other reasons. What is left tells of
//! it: the least number of F16, 2^-24, stands for everything from its half to its one and a half, and zero for
//! everything below its half. Gradients have both signs and become no rarer towards zero, so at least half as many
//! elements were flushed as are ±2^-24. Gradients that were never rounded to F16 say nothing. Of a gradient that was flushed
//! as a whole nothing is left: if half of the gradients of a pass are 0 in every element, they count as flushed.
//!
//! The nodes of this crate, and those of casts, show their gradients in F16 to [`seen`]. It does nothing but in a
//! [`Look`], where it reads up to 4096 values of each and waits for the device.

use std::cell::RefCell;

use burn_backend::{Backend, DType, Shape, TensorMetadata, read_sync, tensor::FloatTensor};

use crate::{sample, widen::widen};

/// The least positive number of F16.
const LEAST: f64 = 1.0 / 16_777_216.0; // 2^-24

/// Fewer values that are not 0 say nothing about a share.
const FEWEST: u64 = 64;

thread_local! {
    /// What was found so far in the look of this thread. A backward pass runs on the thread that starts it.
    static FOUND: RefCell<Option<Found>> = const { RefCell::new(None) };
}

/// What a look has found so far.
#[derive(Debug, Default)]
struct Found {
    worst: Option<Flushed>,
    /// The number of gradients with enough elements.
    gradients: usize,
    /// The shapes of those of which all elements are 0.
    vanished: Vec<Shape>,
}

/// The gradient of which F16 flushes the most.
#[derive(Clone, Debug, PartialEq)]
pub struct Flushed {
    /// The share of its elements that F16 has flushed to zero, at least, of those that were not 0 before.
    pub share: f64,
    /// The shape of the gradient.
    pub shape: Shape,
}

/// Looks at the gradients of the backward pass that this thread makes, until it is finished or dropped.
#[derive(Debug)]
pub struct Look(());

impl Look {
    /// Begins to look.
    pub fn begin() -> Self {
        FOUND.set(Some(Found::default()));
        Self(())
    }

    /// Returns the gradient of which F16 flushes the most; `None` if there was none in F16.
    pub fn finish(self) -> Option<Flushed> {
        FOUND.take()?.result()
    }
}

impl Found {
    fn result(self) -> Option<Flushed> {
        let Self {
            worst,
            gradients,
            vanished,
        } = self;
        let have_vanished = 2 * vanished.len() >= gradients;
        let whole = vanished.into_iter().next().filter(|_| have_vanished);
        whole.map(|shape| Flushed { share: 1.0, shape }).or(worst)
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        FOUND.set(None);
    }
}

/// Returns a gradient as it is. In a [`Look`] it reads a sample of one in F16.
#[inline]
pub fn seen<B: Backend>(gradient: FloatTensor<B>) -> FloatTensor<B> {
    if gradient.dtype() == DType::F16 && FOUND.with_borrow(Option::is_some) {
        look_at::<B>(&gradient);
    }
    gradient
}

#[cold]
fn look_at<B: Backend>(gradient: &FloatTensor<B>) {
    let values = widen::<B>(sample::of::<B>(gradient.clone()));
    // A device that fails says so in the check of the gradients.
    let Ok(values) = read_sync(B::float_into_data(values)) else {
        return;
    };
    let is_enough = values.num_elements() as u64 >= FEWEST;
    let is_zero = values.iter::<f64>().all(|value| value == 0.0);
    let share = share_of(values.iter::<f64>());
    FOUND.with_borrow_mut(|found| {
        let Some(found) = found.as_mut().filter(|_| is_enough) else {
            return;
        };
        let shape = gradient.shape();
        found.gradients += 1;
        if is_zero {
            found.vanished.push(shape);
        } else if let Some(share) = share
            && found.worst.as_ref().is_none_or(|worst| worst.share < share)
        {
            found.worst = Some(Flushed { share, shape });
        }
    });
}

/// The share of values that F16 has flushed, at least; `None` if too few are left, or one is not finite.
fn share_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut nonzero, mut least) = (0_u64, 0_u64);
    for value in values {
        if !value.is_finite() {
            return None;
        }
        nonzero += u64::from(value != 0.0);
        least += u64::from(value.abs() == LEAST);
    }
    let flushed = least as f64 / 2.0;
    (nonzero >= FEWEST).then(|| flushed / (nonzero as f64 + flushed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of a normal distribution, by bisection of its density's integral.
    fn normal(count: usize) -> Vec<f64> {
        const STEPS: usize = 100_000;
        const END: f64 = 6.0;
        let step = 2.0 * END / STEPS as f64;
        let at = |i: usize| -END + (i as f64 + 0.5) * step;
        let density = |x: f64| (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let (mut sum, mut quantiles) = (0.0, Vec::new());
        for x in (0..STEPS).map(at) {
            sum += density(x) * step;
            while quantiles.len() < count && sum * count as f64 > quantiles.len() as f64 + 0.5 {
                quantiles.push(x);
            }
        }
        quantiles
    }

    /// The oracle is the rounding itself, of values that are known before it.
    #[test]
    fn the_share_of_normal_values_is_that_which_rounding_flushes() {
        for exponent in [-26, -24, -23, -22, -20, -14] {
            let exact: Vec<f64> = normal(4000)
                .into_iter()
                .map(|x| x * 2f64.powi(exponent))
                .collect();
            // Below 2^-14 the numbers of F16 are the multiples of its least.
            let rounded: Vec<f64> = exact
                .iter()
                .map(|x| (x / LEAST).round_ties_even() * LEAST)
                .collect();
            let flushed = rounded.iter().filter(|x| **x == 0.0).count() as f64 / 4000.0;
            let share = share_of(rounded.into_iter()).unwrap();
            // A normal distribution is flat near 0 in comparison with its width, and falls off beyond: the share is a
            // lower bound, and exact where few are flushed. A quantile is 1/4000.
            assert!(
                share <= flushed + 1.0 / 4000.0,
                "{exponent}: {share} of {flushed}"
            );
            if exponent >= -22 {
                assert!(
                    (share - flushed).abs() < 0.005,
                    "{exponent}: {share} of {flushed}"
                );
            }
        }
    }

    #[test]
    fn gradients_that_have_vanished_count_if_they_are_half_of_all() {
        let shape = |size: usize| Shape::from(vec![size]);
        let found = |vanished: Vec<Shape>| Found {
            worst: None,
            gradients: 4,
            vanished,
        };
        assert_eq!(found(vec![shape(64)]).result(), None);
        let flushed = found(vec![shape(65), shape(64)]).result().unwrap();
        assert_eq!((flushed.share, flushed.shape), (1.0, shape(65)));
        assert_eq!(Found::default().result(), None);
    }

    #[test]
    fn zeros_few_values_and_those_that_are_not_finite_say_nothing() {
        let values = |value: f64, count: usize| std::iter::repeat_n(value, count);
        assert_eq!(share_of(values(0.0, 4096)), None);
        assert_eq!(share_of(values(LEAST, 63)), None);
        assert_eq!(share_of(values(1.0, 100).chain([f64::INFINITY])), None);
        // Zeros beside large values are those of a mask.
        assert_eq!(
            share_of(values(0.0, 900).chain(values(1.0, 100))),
            Some(0.0)
        );
        assert_eq!(share_of(values(-LEAST, 100)), Some(1.0 / 3.0));
    }
}
