//! How far results in low precision may be off: as far as those of casts by hand.
//!
//! A quotient whose divisor is zero, or has another sign, after other roundings says nothing about a result: such
//! programs cannot be called wrong. The same holds for the angle of such a number.
//!
//! One jump inside an op is known that no run by hand makes, as these compute in F64: in F32 the remainder of -2^-24 by
//! 1.5 is 0, because their sum is rounded to 1.5 (seed 61030664).

use std::cmp::Ordering;

use burn_amp_core::Policy;

use super::all::*;
use super::by_hand::{Chance, Rounding, Scope, rounding};

/// A result may be off by this many times the largest error of the runs by hand. Both are sums of rounding errors at
/// about the same places; of a few such sums the largest is seldom less than a third of what another one may be.
const FACTOR: f64 = 6.0;

/// The runs by hand that are made at first, and those that are made before a result is called wrong. Ties of a maximum,
/// comparisons near a threshold, quotients by what is nearly zero: such errors are rare and large, and few runs have
/// none. The largest error of many such runs is still exceeded, so many times over, by one more in about
/// `1 / (FACTOR * runs)` of all cases.
const RUNS: [usize; 3] = [3, 48, 480];

/// A result that is off by this many times its bound is wrong before all runs are made.
const FAR: f64 = 16.0;

/// A gradient so small beside others, and beside that of the root, which is 1, is zero but for rounding errors: that of
/// a bias before a norm, or of `x / x`. Its errors are those of the numbers that cancel in it.
const ZERO: f64 = 1e-6;

/// How much larger than the largest gradient the numbers may be that cancel.
const CANCELLING: f64 = 32.0;

fn is_gradient(name: &str) -> bool {
    name.starts_with("gradient")
}

fn is_stepped(name: &str) -> bool {
    name.contains("after the step")
}

/// What Adam's first step may be off by: it has one length, whatever that of the gradient, so an element whose
/// gradient is nearly zero may go the other way. Some few elements do. Later passes differ by what that makes of the
/// program, and are not compared with exact values.
fn turned(elements: usize) -> [f64; 2] {
    let few = (elements / 64).max(1) as f64;
    [2.0 * LEARNING_RATE * few.sqrt(), 2.0 * LEARNING_RATE]
}

/// The size of the largest gradient, or that of the root.
fn largest_gradient(exact: &Outcome) -> [f64; 2] {
    let gradients = exact.results.iter().filter(|(name, _)| is_gradient(name));
    gradients
        .map(|(_, data)| norms(data))
        .fold([1.0; 2], |all, size| {
            [all[0].max(size[0]), all[1].max(size[1])]
        })
}

/// Whether a gradient is zero but for rounding errors.
pub fn has_zero_gradient(exact: &Outcome) -> bool {
    let largest = largest_gradient(exact)[0];
    let mut gradients = exact.results.iter().filter(|(name, _)| is_gradient(name));
    gradients.any(|(_, data)| {
        let size = norms(data)[0];
        data.num_elements() > 0 && size < ZERO * largest
    })
}

/// The results of casts by hand in one dtype.
pub struct ByHandRuns<'a> {
    program: &'a Program,
    exact: &'a Outcome,
    /// The results of plain Burn in F32.
    plain: &'a Outcome,
    compute: Precision,
    scales: Vec<f64>,
    errors: Vec<Vec<[f64; 2]>>,
    /// The signs of the divisors in the first run.
    divisor_signs: Vec<Option<Ordering>>,
    /// Whether a divisor is zero or has different signs.
    divides_by_noise: bool,
}

/// A result that is off by more than may be.
#[derive(Clone, Debug)]
pub struct Off {
    pub name: String,
    pub error: f64,
    pub bound: f64,
    pub size: f64,
}

impl<'a> ByHandRuns<'a> {
    pub fn new(
        program: &'a Program,
        exact: &'a Outcome,
        plain: &'a Outcome,
        compute: Precision,
        scales: Vec<f64>,
    ) -> Self {
        Self {
            program,
            exact,
            plain,
            compute,
            scales,
            errors: vec![],
            divisor_signs: vec![],
            divides_by_noise: false,
        }
    }

    /// Whether the runs were made with these loss scales.
    pub fn is_scaled_by(&self, scales: &[f64]) -> bool {
        self.scales == scales
    }

    /// Whether a value or a gradient of casts by hand is not finite, or may be so after other roundings.
    pub fn overflows(&mut self) -> bool {
        // Plain Burn's values as well: what cancels inside an op in F32, such as a log-softmax, does not do so in F64.
        let plain = self.plain.results.iter();
        let mut plain = plain.flat_map(|(_, data)| data.iter::<f64>());
        if plain.any(|x| !x.is_finite()) {
            return true;
        }
        RUNS.into_iter().any(|runs| {
            self.draw(runs);
            let mut errors = self.errors.iter().flatten().flatten();
            self.divides_by_noise || errors.any(|error| !error.is_finite())
        })
    }

    /// The results of `found` that are off.
    pub fn off(&mut self, found: &Outcome) -> Vec<Off> {
        let mut off = vec![];
        for runs in RUNS {
            self.draw(runs);
            if self.divides_by_noise && !off.is_empty() {
                return vec![];
            }
            off = self.beyond(found);
            let is_near = |off: &Off| off.error < FAR * off.bound;
            if runs > RUNS[0] && !off.iter().all(is_near) || off.is_empty() {
                break;
            }
        }
        off
    }

    /// The results of `found` whose errors are beyond their bounds.
    fn beyond(&self, found: &Outcome) -> Vec<Off> {
        let floor = self.floor();
        let mut all = Vec::new();
        let largest = largest_gradient(self.exact);
        let is_adaptive = self.program.optimizer.is_adaptive();
        let compared = match is_adaptive {
            true => self.exact.first_pass,
            false => self.exact.results.len(),
        };
        for (i, (name, exact)) in self.exact.results[..compared].iter().enumerate() {
            let Some((_, found)) = found.results.get(i) else {
                continue;
            };
            let turned = match is_adaptive && is_stepped(name) {
                true => turned(exact.num_elements()),
                false => [0.0; 2],
            };
            let (errors, mut sizes) = (distance(found, exact), norms(exact));
            for norm in 0..2 {
                if is_gradient(name) && sizes[norm] < ZERO * largest[norm] {
                    sizes[norm] = CANCELLING * largest[norm];
                }
            }
            let plain = distance(&self.plain.results[i].1, exact);
            for norm in 0..2 {
                let hands = self.errors.iter().map(|errors| errors[i][norm]);
                let by_hand = hands.fold(plain[norm], larger);
                let bound = FACTOR * by_hand + floor * sizes[norm] + turned[norm];
                // A run by hand that is NaN or infinite allows everything, and a bound as large as the result itself says
                // nothing about it.
                let is_large = errors[norm] > bound && bound < sizes[norm];
                if bound.is_finite() && (errors[norm].is_nan() || is_large) {
                    let (error, size) = (errors[norm], sizes[norm]);
                    all.push(Off {
                        name: name.clone(),
                        error,
                        bound,
                        size,
                    });
                    break;
                }
            }
        }
        all
    }

    /// The rounding errors that each result may have whatever the runs by hand say, beside its size: one for each op.
    fn floor(&self) -> f64 {
        let casts = self.program.steps.iter().filter_map(|step| match step.op {
            Op::Movement(Movement::Cast {
                dtype: FloatDType::BF16,
            }) => Some(Precision::BF16.epsilon()),
            _ => None,
        });
        let epsilon = casts.fold(self.compute.epsilon(), f64::max);
        epsilon * self.program.steps.len() as f64 / 2.0
    }

    fn draw(&mut self, runs: usize) {
        for number in self.errors.len()..runs {
            let how = Rounding {
                policy: Policy::new(self.compute, &Default::default()),
                chance: match number {
                    0 => None,
                    n if n % 2 == 0 => Some(Chance::each(self.program.seed ^ n as u64)),
                    n => Some(Chance::alike(self.program.seed ^ n as u64)),
                },
                scope: Scope::Forward,
                divisor_signs: vec![],
            };
            let circumstances = Circumstances {
                disturbed: false,
                scales: self.scales.clone(),
            };
            let (outcome, signs) = rounding(how, || run::<OnByHand>(self.program, &circumstances));
            self.divides_by_noise |= signs.contains(&Some(Ordering::Equal));
            if number == 0 {
                self.divisor_signs = signs;
            } else {
                self.divides_by_noise |= signs != self.divisor_signs;
            }
            let pairs = outcome.results.iter().zip(&self.exact.results);
            self.errors.push(
                pairs
                    .map(|((_, found), (_, exact))| distance(found, exact))
                    .collect(),
            );
        }
    }
}

/// The larger number, or NaN if one is.
fn larger(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else {
        x.max(y)
    }
}

/// The distance of two tensors: the root of the sum of squares, and the largest.
fn distance(found: &TensorData, exact: &TensorData) -> [f64; 2] {
    if shape_of(found) != shape_of(exact) {
        return [f64::NAN; 2];
    }
    norm(
        found
            .iter::<f64>()
            .zip(exact.iter::<f64>())
            .map(|(x, y)| x - y),
    )
}

/// The size of a tensor in the same norms.
fn norms(data: &TensorData) -> [f64; 2] {
    norm(data.iter::<f64>())
}

fn norm(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (squares, largest) = values.fold((0.0, 0.0), |(squares, largest), x| {
        (squares + x * x, larger(largest, x.abs()))
    });
    [f64::sqrt(squares), largest]
}
