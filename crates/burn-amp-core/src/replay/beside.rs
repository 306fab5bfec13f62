//! Whether the values of a subject are farther from the exact ones than their dtype allows, and than those of a reference.

use serde::Serialize;

use super::{
    difference::{Compared, TensorDifference},
    distance::{distances, rounded_to, ulp},
};
use crate::{Op, Precision};

/// How far values are from the exact ones: each in units in the last place, and in the spread of the exact value.
///
/// The spread is how much the exact value moves if the operands are rounded otherwise, as far as sums of many terms magnify
/// the roundings of F32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// The largest distance.
    pub worst: f64,
    /// The root of the mean of the squares.
    pub rms: f64,
    /// The median.
    pub median: f64,
    /// The place of the largest distance.
    #[serde(skip)]
    pub at: usize,
    /// The number of values.
    pub elements: usize,
}

impl Distance {
    /// The distance of values.
    fn of(distances: impl Iterator<Item = f64>) -> Self {
        let mut distances: Vec<_> = distances.collect();
        let mut distance = Self {
            elements: distances.len(),
            ..Self::default()
        };
        let mut squares = 0.0;
        for (at, x) in distances.iter().enumerate() {
            squares += x * x;
            if *x > distance.worst {
                (distance.worst, distance.at) = (*x, at);
            }
        }
        if !distances.is_empty() {
            distance.rms = (squares / distances.len() as f64).sqrt();
            let middle = distances.len() / 2;
            distance.median = *distances.select_nth_unstable_by(middle, f64::total_cmp).1;
        }
        distance
    }
}

/// How far values may be from the exact ones, or from those of the reference.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    worst: f64,
    rms: f64,
    median: f64,
    /// What is added to the unit of each value.
    absolute: f64,
    /// The tolerance that is in them.
    tolerance: f64,
}

impl Allowed {
    /// What an op may be off in a dtype.
    ///
    /// In low precision values are computed in F32 and rounded once. That is half a unit at most, uniform to both sides: a
    /// mean square of 1/12, which varies by 1/180 from value to value, and a median of 1/4, which varies by 1/4 over the root
    /// of their number; five standard deviations are allowed. Values that are cut off instead have 1/3 and 1/2. In F32 a
    /// device may compute an exponential or a quotient less exactly than another; Vulkan allows 3 units and twice the argument
    /// for an exponential, and 4096 for an arc tangent, from which an arc sine is made. What is made of exponentials has their
    /// errors where it is near 0.
    fn of(op: &str, dtype: Precision, elements: usize, tolerance: f64) -> Self {
        if dtype.is_low() {
            let deviation = (1.0 / 180.0 / elements as f64).sqrt();
            return Self {
                worst: tolerance,
                rms: tolerance * (1.0f64 / 12.0 + 5.0 * deviation).sqrt(),
                median: tolerance * (0.25 + 1.25 / (elements as f64).sqrt()),
                absolute: 0.0,
                tolerance,
            };
        }
        let (worst, absolute) = match op.parse() {
            Ok(Op::float_atan | Op::float_atan2 | Op::float_asin | Op::float_acos) => (4096.0, 0.0),
            Ok(
                Op::float_tanh
                | Op::float_sinh
                | Op::float_asinh
                | Op::float_atanh
                | Op::float_erf
                | Op::float_log1p,
            ) => (16.0, dtype.epsilon()),
            Ok(_) | Err(()) => (16.0, 0.0),
        };
        let worst = tolerance * worst;
        Self {
            worst,
            rms: worst,
            median: worst,
            absolute,
            tolerance,
        }
    }

    /// What is allowed beside a reference that is off itself. Where it is farther off than an op may be, some values depend on
    /// roundings so much that another backend may have several times its errors. Most values do not: the median of many is
    /// allowed to be twice that of the reference.
    fn beside(self, reference: &Distance) -> Self {
        let [worst, rms] = match self.times(self.tolerance.recip()).is_exceeded(reference) {
            true => [8.0, 8.0],
            false => [2.0, 1.5],
        };
        Self {
            worst: f64::max(self.worst, worst * reference.worst),
            rms: f64::max(self.rms, rms * reference.rms),
            median: f64::max(
                self.median,
                (2.0 + 6.0 / (reference.elements as f64).sqrt()) * reference.median,
            ),
            ..self
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            worst: factor * self.worst,
            rms: factor * self.rms,
            median: factor * self.median,
            ..self
        }
    }

    fn is_exceeded(self, distance: &Distance) -> bool {
        distance.worst > self.worst || distance.rms > self.rms || distance.median > self.median
    }
}

/// The values of a tensor of a call on both backends and in F64.
#[derive(Clone, Debug)]
pub struct Beside<'a> {
    /// The name of the op.
    pub op: &'a str,
    /// Which tensor of the call it is.
    pub what: Compared,
    /// The number of calls that were run together.
    pub calls: usize,
    /// On the subject.
    pub found: &'a [f64],
    /// On the reference.
    pub expected: &'a [f64],
    /// In F64.
    pub exact: &'a [f64],
    /// How much each exact value moves if what it is made of is rounded otherwise; empty if that is not known yet.
    pub spread: Vec<f64>,
    /// The dtype in which the tensor is stored, and the compute dtype if that is low.
    pub stored: Precision,
    /// The compute dtype, if that is low.
    pub low: Option<Precision>,
    /// Whether the reference computes in a wider dtype, so that it is no measure of what a dtype allows.
    pub is_wider: bool,
    /// How many times as far as its dtype allows a value may be.
    pub tolerance: f64,
}

impl Beside<'_> {
    /// The dtype to which the reference rounds, or the subject if the reference is in a wider one.
    fn dtype(&self) -> Precision {
        let rounded = if self.is_wider {
            self.found
        } else {
            self.expected
        };
        rounded_to(rounded, self.low, self.stored)
    }

    /// How far values are from others.
    fn distance(&self, values: &[f64], from: &[f64]) -> Distance {
        Distance::of(self.distances(values, from))
    }

    fn distances<'a>(
        &'a self,
        values: &'a [f64],
        from: &'a [f64],
    ) -> impl Iterator<Item = f64> + 'a {
        let absolute = self.allowed().absolute + self.cancelled();
        distances(values, from, &self.spread, absolute, self.dtype())
    }

    /// What a gradient, or the result of several ops, may be off because terms have cancelled, as in `1 - tanh²`: some units of
    /// F32 of the largest value, since what the terms are made of is known in F32 only.
    fn cancelled(&self) -> f64 {
        if self.calls == 1 && matches!(self.what, Compared::Result(_)) {
            return 0.0;
        }
        let finite = self.exact.iter().filter(|x| x.is_finite());
        4.0 * Precision::F32.epsilon() * finite.fold(0.0, |most, x| x.abs().max(most))
    }

    fn allowed(&self) -> Allowed {
        Allowed::of(self.op, self.dtype(), self.found.len(), self.tolerance)
    }

    /// Whether subject and reference are as near to each other as both may be to the exact values.
    pub fn is_near(&self) -> bool {
        !self
            .allowed()
            .is_exceeded(&self.distance(self.found, self.expected))
    }

    /// Whether the reference is farther from the exact values than one rounding: what it computes in between is rounded, too.
    pub fn is_rounded_often(&self) -> bool {
        self.is_wider || self.distance(self.expected, self.exact).worst > 0.6
    }

    /// The distances of subject and reference from the exact values, if that of the subject is larger than its dtype allows
    /// and than that of the reference, and the two are not near; and the dtype.
    pub fn differ(&self) -> Option<(Distance, Distance, Precision)> {
        let subject = self.distance(self.found, self.exact);
        let reference = self.distance(self.expected, self.exact);
        let is_far = self.allowed().beside(&reference).is_exceeded(&subject) && !self.is_near();
        is_far.then_some((subject, reference, self.dtype()))
    }

    /// Describes the difference of a tensor, in which [`differ`](Self::differ) has found these distances.
    pub fn difference(
        &self,
        (subject, reference, dtype): (Distance, Distance, Precision),
        shape: Vec<usize>,
        call: usize,
        calls: Vec<usize>,
    ) -> TensorDifference {
        let allowed = self.allowed().beside(&reference);
        let far = self.distances(self.found, self.exact);
        let at = subject.at;
        TensorDifference {
            call,
            calls,
            what: self.what,
            dtype,
            shape,
            element: at,
            found: self.found[at],
            expected: self.expected[at],
            exact: self.exact[at],
            ulps: (self.found[at] - self.exact[at]).abs() / ulp(dtype, self.exact[at]),
            beyond: far.filter(|x| *x > allowed.worst).count(),
            subject,
            reference,
            program: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside<'a>(found: &'a [f64], expected: &'a [f64], exact: &'a [f64]) -> Beside<'a> {
        Beside {
            op: "float_add",
            what: Compared::Result(0),
            calls: 1,
            found,
            expected,
            exact,
            spread: Vec::new(),
            stored: Precision::F16,
            low: Some(Precision::F16),
            is_wider: false,
            tolerance: 1.0,
        }
    }

    /// Numbers between 1 and 2, with many bits.
    fn numbers(count: usize) -> Vec<f64> {
        (0..count)
            .map(|at| 1.0 + (at as f64 * 0.618_033_988_75).fract())
            .collect()
    }

    #[test]
    fn numbers_that_are_cut_off_differ_from_rounded_ones() {
        for count in [8, 100, 1000] {
            let exact = numbers(count);
            let rounded: Vec<_> = exact.iter().map(|x| Precision::F16.round(*x)).collect();
            let cut: Vec<_> = exact
                .iter()
                .map(|x| (x * 1024.0).floor() / 1024.0)
                .collect();
            assert_eq!(beside(&rounded, &rounded, &exact).differ(), None);
            let (subject, reference, dtype) = beside(&cut, &rounded, &exact).differ().unwrap();
            assert_eq!(dtype, Precision::F16);
            assert!(
                subject.rms > 0.5 && reference.rms < 0.35,
                "{subject:?} {reference:?}"
            );
            // A reference that cuts them off itself allows that.
            assert_eq!(beside(&cut, &cut, &exact).differ(), None);
        }
    }

    /// As the sum of a product and a bias that are both in half precision.
    #[test]
    fn numbers_with_fewer_bits_differ_from_those_of_a_reference_that_is_off() {
        let exact = numbers(1000);
        let off: Vec<_> = exact
            .iter()
            .map(|x| Precision::F16.round(x + 3.0) - 3.0)
            .collect();
        let low: Vec<_> = exact.iter().map(|x| (x * 64.0).round() / 64.0).collect();
        assert!(beside(&off, &exact, &exact).differ().is_some());
        let (subject, reference, _) = beside(&low, &off, &exact).differ().unwrap();
        assert!(
            subject.rms < 8.0 * reference.rms && subject.median > 2.0 * reference.median,
            "{subject:?} {reference:?}"
        );
        assert_eq!(beside(&off, &off, &exact).differ(), None);
    }

    #[test]
    fn one_wrong_element_of_many_is_a_difference() {
        let exact = numbers(100_000);
        let rounded: Vec<_> = exact.iter().map(|x| Precision::F16.round(*x)).collect();
        let mut wrong = rounded.clone();
        wrong[777] = wrong[778];
        let beside = beside(&wrong, &rounded, &exact);
        let far = beside.differ().unwrap();
        let difference = beside.difference(far, vec![1000, 100], 3, vec![3]);
        assert_eq!(
            (difference.element, difference.beyond, difference.call),
            (777, 1, 3)
        );
    }

    #[test]
    fn a_small_gradient_may_be_zero_beside_a_large_one() {
        let (exact, found) = ([8.0, 2e-6], [8.0, 0.0]);
        let mut beside = beside(&found, &exact, &exact);
        assert!(beside.differ().is_some());
        beside.what = Compared::Gradient(1);
        assert_eq!(beside.differ(), None);
    }

    #[test]
    fn what_a_spread_explains_is_no_difference() {
        let exact = [1.0, 1e-6];
        let found = [1.0, 1.1e-6];
        let mut beside = beside(&found, &exact, &exact);
        (beside.stored, beside.low) = (Precision::F32, None);
        assert!(beside.differ().is_some());
        beside.spread = vec![1e-7, 1e-7];
        assert_eq!(beside.differ(), None);
    }
}
