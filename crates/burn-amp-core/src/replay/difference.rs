//! What came of running each call of a step on two backends: the subject and the reference.

use serde::Serialize;

use super::{
    Step,
    distance::{distances, rounded_to, ulp},
};
use crate::{Op, Precision};

/// A step whose calls were run on a subject and on a reference, which get the same operands.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The name of the backend that is looked at.
    pub subject: String,
    /// The name of the backend that it is compared with.
    pub reference: String,
    /// The number of results that were compared.
    pub results: usize,
    /// The number of gradients that were compared.
    pub gradients: usize,
    /// The tensors that differ by more than their dtypes allow: results in the order of the calls, then gradients in the
    /// order of the backward pass.
    pub differences: Vec<TensorDifference>,
    /// The calls that could not be compared, and why.
    pub not_compared: Vec<(usize, String)>,
}

/// A tensor that differs by more than its dtype allows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorDifference {
    /// The call that made it, or in whose backward pass it was made.
    pub call: usize,
    /// The calls that are run with it, itself included: views, and those whose results wait for their reader.
    pub calls: Vec<usize>,
    /// Which of the tensors of the call it is.
    pub what: Compared,
    /// The dtype to which the reference rounds the values.
    pub dtype: Precision,
    /// The shape.
    pub shape: Vec<usize>,
    /// The element that is farthest from the exact one, in row-major order.
    pub element: usize,
    /// Its value on the subject.
    pub found: f64,
    /// Its value on the reference.
    pub expected: f64,
    /// Its value in F64.
    pub exact: f64,
    /// How far it is from the exact value, in units in the last place of the dtype.
    pub ulps: f64,
    /// The number of elements farther from the exact ones than any of the reference may be.
    pub beyond: usize,
    /// The distance of all elements from the exact ones on the subject.
    pub subject: Distance,
    /// The same on the reference.
    pub reference: Distance,
    /// A program that shows the difference without burn-amp, or with it where it does not show without.
    pub program: Option<String>,
}

/// A tensor of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// A float result, by its place.
    Result(usize),
    /// The gradient of a float operand, by its number in the calls.
    Gradient(u64),
}

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
    /// The place of the largest distance.
    #[serde(skip)]
    pub at: usize,
    /// The number of values.
    pub elements: usize,
}

impl Distance {
    /// The distance of values.
    fn of(distances: impl Iterator<Item = f64>) -> Self {
        let (mut distance, mut squares) = (Self::default(), 0.0);
        for (at, x) in distances.enumerate() {
            distance.elements += 1;
            squares += x * x;
            if x > distance.worst {
                (distance.worst, distance.at) = (x, at);
            }
        }
        if distance.elements > 0 {
            distance.rms = (squares / distance.elements as f64).sqrt();
        }
        distance
    }
}

/// How far values may be from the exact ones, or from those of the reference.
#[derive(Clone, Copy, Debug)]
struct Allowed {
    worst: f64,
    rms: f64,
    /// What is added to the unit of each value.
    absolute: f64,
}

impl Allowed {
    /// What an op may be off in a dtype.
    ///
    /// In low precision values are computed in F32 and rounded once. That is half a unit at most, uniform to both sides: a
    /// mean square of 1/12, which varies by 1/180 from value to value; five standard deviations are allowed. Values that are
    /// cut off instead have 1/3. In F32 a device may compute an exponential or a quotient less exactly than another; Vulkan
    /// allows 3 units and twice the argument for an exponential, and 4096 for an arc tangent, from which an arc sine is made.
    /// What is made of exponentials has their errors where it is near 0.
    fn of(op: &str, dtype: Precision, elements: usize, tolerance: f64) -> Self {
        if dtype.is_low() {
            let deviation = (1.0 / 180.0 / elements as f64).sqrt();
            return Self {
                worst: tolerance,
                rms: tolerance * (1.0f64 / 12.0 + 5.0 * deviation).sqrt(),
                absolute: 0.0,
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
            absolute,
        }
    }

    /// What is allowed beside a reference that is off itself.
    fn beside(self, reference: &Distance) -> Self {
        Self {
            worst: f64::max(self.worst, 2.0 * reference.worst),
            rms: f64::max(self.rms, 1.5 * reference.rms),
            ..self
        }
    }

    fn is_exceeded(self, distance: &Distance) -> bool {
        distance.worst > self.worst || distance.rms > self.rms
    }
}

/// The values of a tensor of a call on both backends and in F64.
#[derive(Clone, Debug)]
pub struct Beside<'a> {
    /// The name of the op.
    pub op: &'a str,
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
        let absolute = self.allowed().absolute;
        distances(values, from, &self.spread, absolute, self.dtype())
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
        what: Compared,
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
            what,
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

impl Comparison {
    /// Says what was compared and what differs; every difference if `all` of them are asked for.
    pub fn to_text(&self, step: &Step, all: bool) -> String {
        let Self {
            subject,
            reference,
            results,
            gradients,
            differences,
            not_compared,
        } = self;
        let mut lines = vec![format!(
            "{results} results and {gradients} gradients of {} calls compared: {subject} beside {reference}.",
            step.calls.len(),
        )];
        for (at, why) in not_compared {
            lines.push(format!("Not compared: {}: {why}", name(step, *at)));
        }
        match differences.split_first() {
            None => lines.push("None differs by more than its dtype allows.".into()),
            Some((first, others)) => {
                lines.push(String::new());
                lines.push(format!("First different: {}", self.told(first, step)));
                let shown = if all { others.len() } else { 0 };
                for other in &others[..shown] {
                    lines.push(format!("Different: {}", self.told(other, step)));
                }
                if others.len() > shown {
                    lines.push(format!(
                        "{} more tensors differ; `--all` shows them.",
                        others.len()
                    ));
                }
                if let Some(program) = &first.program {
                    lines.push(String::new());
                    lines.push("This program shows it:".into());
                    lines.push(String::new());
                    lines.push(program.trim_end().into());
                }
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// A difference in some lines.
    fn told(&self, difference: &TensorDifference, step: &Step) -> String {
        let TensorDifference {
            call,
            calls,
            what,
            dtype,
            shape,
            element,
            found,
            expected,
            exact,
            ulps,
            beyond,
            subject,
            reference,
            program: _,
        } = difference;
        let tensor = match what {
            Compared::Result(0) => "the result".to_owned(),
            Compared::Result(place) => format!("result {place}"),
            Compared::Gradient(id) => format!("the gradient of {}", operand(step, calls, *id)),
        };
        let mut text = format!(
            "{}: {tensor}, {dtype} {shape:?}\n  \
             element {:?}: {} on {}, {} on {}, {} in f64: {} ulps\n  \
             {beyond} of {} elements are farther off than {dtype} allows; on average {} ulps, {} on {}",
            name(step, *call),
            position(*element, shape),
            number(*found),
            self.subject,
            number(*expected),
            self.reference,
            number(*exact),
            number(*ulps),
            subject.elements,
            number(subject.rms),
            number(reference.rms),
            self.reference,
        );
        let others = calls.iter().filter(|other| *other != call);
        let others: Vec<_> = others.map(|other| name(step, *other)).collect();
        if !others.is_empty() {
            text += "\n  run with ";
            text += &others.join(", ");
        }
        text
    }
}

/// A call by its number, op and line.
pub(super) fn name(step: &Step, at: usize) -> String {
    let Some(call) = step.calls.get(at) else {
        return format!("call {at}");
    };
    match &call.site {
        Some(site) => format!("call {at}, `{}` at {site}", call.op),
        None => format!("call {at}, `{}`", call.op),
    }
}

/// What a tensor is to the first of some calls that reads it.
fn operand(step: &Step, calls: &[usize], id: u64) -> String {
    let outside = step.outside.iter().find(|outside| outside.id == id);
    if let Some(parameter) = outside.and_then(|outside| outside.parameter.as_ref()) {
        return format!("`{parameter}`");
    }
    let found = calls.iter().find_map(|at| {
        let place = step.calls[*at]
            .uses()
            .position(|operand| operand.id == id)?;
        Some((place, &step.calls[*at].op))
    });
    match found {
        Some((place, op)) => format!("operand {place} of `{op}`"),
        None => "an operand".into(),
    }
}

/// The indices of an element.
fn position(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (index, size) in position.iter_mut().zip(shape).rev() {
        *index = element % size;
        element /= size;
    }
    position
}

/// A number in few digits.
fn number(x: f64) -> String {
    match x.abs() {
        0.0 => "0".into(),
        1e-3..1e5 => format!("{}", (x * 1e6).round() / 1e6),
        _ => format!("{x:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside<'a>(found: &'a [f64], expected: &'a [f64], exact: &'a [f64]) -> Beside<'a> {
        Beside {
            op: "float_add",
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

    #[test]
    fn one_wrong_element_of_many_is_a_difference() {
        let exact = numbers(100_000);
        let rounded: Vec<_> = exact.iter().map(|x| Precision::F16.round(*x)).collect();
        let mut wrong = rounded.clone();
        wrong[777] = wrong[778];
        let beside = beside(&wrong, &rounded, &exact);
        let far = beside.differ().unwrap();
        let difference = beside.difference(far, Compared::Result(0), vec![1000, 100], 3, vec![3]);
        assert_eq!(
            (difference.element, difference.beyond, difference.call),
            (777, 1, 3)
        );
        assert_eq!(position(777, &difference.shape), [7, 77]);
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
