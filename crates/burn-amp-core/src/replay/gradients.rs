//! How much of the gradients of a step the range of F16 loses, and which loss scale would keep it.

use std::fmt;

use serde::Serialize;

use super::{Outside, Step, difference::name};
use crate::{Precision, columns::columns, health::Counts};

/// The share of a gradient that a loss scale may flush: what is left of the others is exact enough for a step.
const MAY_FLUSH: f64 = 1e-3;

/// The gradients of a step in the dtypes in which it was recorded, beside those in F32.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GradientRanges {
    /// The factor on the loss; 1 if losses are not scaled.
    pub scale: f64,
    /// The gradients of results, in the order of the calls, and then those of parameters.
    pub gradients: Vec<GradientRange>,
}

/// A gradient.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GradientRange {
    /// The call of whose first result it is the gradient, or the parameter.
    pub of: String,
    /// The dtype in which the step had it.
    pub dtype: Precision,
    /// Where its elements are in the range of that dtype.
    pub counts: Counts,
    /// The number of elements that are 0 in the step and not in F32.
    pub flushed: u64,
    /// The smallest power of two as a loss scale at which F16 would flush at most one element in a thousand.
    pub least_scale: f64,
    /// The largest power of two at which none would overflow F16.
    pub largest_scale: f64,
}

impl GradientRange {
    /// Looks at a gradient of the step, which was scaled, and the same in F32, which was not.
    pub fn of(of: String, dtype: Precision, found: &[f64], exact: &[f64]) -> Self {
        let pairs = found.iter().zip(exact);
        let flushed = pairs.filter(|(x, y)| **x == 0.0 && **y != 0.0).count() as u64;
        let mut magnitudes: Vec<_> = exact.iter().map(|x| x.abs()).filter(|x| *x > 0.0).collect();
        magnitudes.sort_by(f64::total_cmp);
        let may_flush = (magnitudes.len() as f64 * MAY_FLUSH) as usize;
        // Half of the smallest subnormal number and below become 0.
        let least = Precision::F16.min_positive() * Precision::F16.epsilon() / 2.0;
        let (least_scale, largest_scale) = match (magnitudes.get(may_flush), magnitudes.last()) {
            (Some(small), Some(large)) => (
                (least / small).log2().ceil().exp2(),
                (Precision::F16.max() / large).log2().floor().exp2(),
            ),
            _ => (0.0, f64::INFINITY),
        };
        Self {
            of,
            dtype,
            counts: Counts::of(found.iter().copied(), dtype),
            flushed,
            least_scale,
            largest_scale,
        }
    }
}

/// The dtype of a gradient in a step, its values there, and those in F32; `None` if there is none.
pub type GradientPair = Option<(Precision, Vec<f64>, Vec<f64>)>;

impl GradientRanges {
    /// The gradients of a step: of the first result of each call, and of each tensor from outside.
    pub fn of(step: &Step, received: Vec<GradientPair>, gradients: Vec<GradientPair>) -> Self {
        let leaf = |outside: &Outside| {
            let parameter = outside.parameter.clone();
            parameter.unwrap_or_else(|| format!("leaf {}", outside.id))
        };
        let calls = (0..step.calls.len()).map(|at| name(step, at));
        let all = calls.zip(received);
        let all = all.chain(step.outside.iter().map(leaf).zip(gradients));
        let gradients = all.filter_map(|(of, pair)| {
            let (dtype, found, exact) = pair?;
            Some(GradientRange::of(of, dtype, &found, &exact))
        });
        Self {
            scale: step.scale.unwrap_or(1.0).into(),
            gradients: gradients.collect(),
        }
    }

    /// The range of loss scales that keep all gradients in low precision.
    pub fn scales(&self) -> (f64, f64) {
        let [small, large] = self.hardest();
        (
            small.map_or(0.0, |gradient| gradient.least_scale),
            large.map_or(f64::INFINITY, |gradient| gradient.largest_scale),
        )
    }

    /// The gradient in low precision that needs the largest scale, and the one that overflows first.
    fn hardest(&self) -> [Option<&GradientRange>; 2] {
        let in_low = || {
            self.gradients
                .iter()
                .filter(|gradient| gradient.dtype.is_low())
        };
        [
            in_low().max_by(|x, y| x.least_scale.total_cmp(&y.least_scale)),
            in_low().min_by(|x, y| x.largest_scale.total_cmp(&y.largest_scale)),
        ]
    }

    /// The gradients of which the step has flushed the most, or of all.
    fn shown(&self, all: bool) -> Vec<&GradientRange> {
        let mut shown: Vec<_> = self.gradients.iter().collect();
        if !all {
            shown.retain(|gradient| gradient.flushed > 0);
            shown.sort_by_key(|gradient| std::cmp::Reverse(gradient.flushed));
            shown.truncate(12);
        }
        shown
    }

    /// Says how many elements were flushed, which loss scale would keep them, and where they are.
    pub fn to_text(&self, all: bool) -> String {
        let mut text = format!("{self}\n");
        let shown = self.shown(all);
        if shown.is_empty() {
            return text;
        }
        let header = [
            "gradient of",
            "dtype",
            "elements",
            "flushed",
            "zero",
            "subnormal",
            "near limit",
            "keeps at",
        ];
        let rows = shown.iter().map(|gradient| {
            let Counts {
                elements,
                zero,
                subnormal,
                near_limit,
                not_finite: _,
            } = gradient.counts;
            let counts = [elements, gradient.flushed, zero, subnormal, near_limit];
            let mut row = vec![gradient.of.clone(), gradient.dtype.to_string()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(match gradient.least_scale {
                0.0 => String::new(),
                least => format!("{} .. {}", power(least), power(gradient.largest_scale)),
            });
            row
        });
        let rows: Vec<_> = [header.map(str::to_owned).to_vec()]
            .into_iter()
            .chain(rows)
            .collect();
        text.push('\n');
        text += &columns(&rows, |column| (2..7).contains(&column)).join("\n");
        text.push('\n');
        text
    }
}

impl fmt::Display for GradientRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |count: fn(&GradientRange) -> u64| self.gradients.iter().map(count).sum::<u64>();
        let (flushed, elements) = (
            sum(|gradient| gradient.flushed),
            sum(|gradient| gradient.counts.elements),
        );
        let (least, largest) = self.scales();
        write!(
            f,
            "{} gradients at loss scale {}: {flushed} of {elements} elements are 0 here and not in f32.",
            self.gradients.len(),
            power(self.scale),
        )?;
        if least == 0.0 {
            return Ok(());
        }
        if let ([Some(small), Some(large)], true) = (self.hardest(), least > largest) {
            return write!(
                f,
                "\nNo loss scale keeps all: {} needs {} or more, and {} overflows above {}. Give one of the two ops the class \
                 `full`, or take bf16.",
                small.of,
                power(least),
                large.of,
                power(largest),
            );
        }
        write!(
            f,
            "\nLoss scales from {} to {} keep 99.9 % of each.",
            power(least),
            power(largest)
        )
    }
}

/// A power of two, or another number.
fn power(x: f64) -> String {
    match x.log2() {
        exponent if exponent.fract() == 0.0 && exponent.abs() >= 7.0 => format!("2^{exponent}"),
        _ => x.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(found: &[f64], exact: &[f64]) -> GradientRange {
        GradientRange::of("call 0".into(), Precision::F16, found, exact)
    }

    #[test]
    fn flushed_elements_are_those_that_f32_has() {
        let found = [0.0, 0.0, 1.0, 0.0];
        let one = range(&found, &[0.0, 1e-9, 1.0, -1e-8]);
        assert_eq!((one.flushed, one.counts.zero), (2, 3));
        // 1e-9 times 2^5 is 3.2e-8, above 2^-25.
        assert_eq!((one.least_scale, one.largest_scale), (32.0, 32768.0));
    }

    #[test]
    fn the_text_names_the_scales_or_the_ops_that_exclude_each_other() {
        let mut ranges = GradientRanges {
            scale: 1.0,
            gradients: vec![range(&[0.0], &[1e-9]), range(&[1.0], &[1.0])],
        };
        assert_eq!(ranges.scales(), (32.0, 32768.0));
        assert_eq!(
            ranges.to_string(),
            "2 gradients at loss scale 1: 1 of 2 elements are 0 here and not in f32.\n\
             Loss scales from 32 to 2^15 keep 99.9 % of each."
        );
        ranges.gradients.push(range(&[6e4], &[6e4]));
        ranges.gradients[2].of = "call 2".into();
        let text = ranges.to_text(false);
        assert!(
            text.contains(
                "No loss scale keeps all: call 0 needs 32 or more, and call 2 overflows above 1."
            ),
            "{text}"
        );
    }
}
