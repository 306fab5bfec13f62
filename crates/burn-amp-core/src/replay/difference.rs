//! What came of running each call of a step on two backends: the subject and the reference.

use serde::Serialize;

use super::{Step, beside::Distance};
use crate::Precision;

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
        _ => format!("{x:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_numbers_are_told_in_few_digits() {
        assert_eq!(position(777, &[1000, 100]), [7, 77]);
        assert_eq!(position(0, &[]), [0; 0]);
        let told = [0.0, 0.1234567, -12.5, 1.430875e7, 4e-5].map(number);
        assert_eq!(told, ["0", "0.123457", "-12.5", "1.431e7", "4.000e-5"]);
    }
}
