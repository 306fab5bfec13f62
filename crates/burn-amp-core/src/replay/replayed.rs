//! What came of running a step again.

use serde::Serialize;

use super::{Step, Values};
use crate::overflow::{Cause, Range};

/// A step that was run again: in the dtypes in which it was recorded, in F32 and in F64.
///
/// A form that could not be run is the reason why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Replayed {
    /// In the dtypes of the run.
    pub recorded: Result<Form, String>,
    /// Every tensor in F32; the loss is not scaled.
    pub f32: Result<Form, String>,
    /// Every tensor in F64; the loss is not scaled.
    pub f64: Result<Form, String>,
}

/// A step in one form.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Form {
    /// The results of each call of the step; `None` for a result that was not computed.
    pub calls: Vec<Vec<Option<Values>>>,
    /// The range of the gradient that the backward pass made of the first result of each call, if it did.
    pub received: Vec<Option<Range>>,
    /// The gradient of each tensor from outside, if the backward pass left one.
    pub gradients: Vec<Option<Values>>,
    /// The op with which the overflow began; `None` if the loss and all gradients are finite.
    pub cause: Option<Cause>,
}

/// How much of a step that was run again has the bits that were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Same {
    /// The number of results with the same bits.
    pub results: usize,
    /// The number of results.
    pub of_results: usize,
    /// The number of gradients with the same bits.
    pub gradients: usize,
    /// The number of gradients.
    pub of_gradients: usize,
    /// The first call with a result that has other bits.
    pub first_different: Option<usize>,
}

impl Same {
    /// Whether every bit is the same.
    pub fn is_all(&self) -> bool {
        self.results == self.of_results && self.gradients == self.of_gradients
    }
}

impl Form {
    /// Compares the form with what was recorded.
    pub fn same(&self, step: &Step) -> Same {
        let mut same = Same {
            results: 0,
            of_results: 0,
            gradients: 0,
            of_gradients: 0,
            first_different: None,
        };
        for (at, (call, results)) in step.calls.iter().zip(&self.calls).enumerate() {
            for (recorded, found) in call.results.iter().zip(results) {
                let Some(recorded) = &recorded.values else {
                    continue;
                };
                same.of_results += 1;
                if found
                    .as_ref()
                    .is_some_and(|found| found.has_bits_of(recorded))
                {
                    same.results += 1;
                } else {
                    same.first_different.get_or_insert(at);
                }
            }
        }
        for (outside, found) in step.outside.iter().zip(&self.gradients) {
            if outside.gradient.is_some() || found.is_some() {
                same.of_gradients += 1;
                let is_same = match (&outside.gradient, found) {
                    (Some(recorded), Some(found)) => found.has_bits_of(recorded),
                    (recorded, found) => recorded.is_none() && found.is_none(),
                };
                same.gradients += usize::from(is_same);
            }
        }
        same
    }

    /// The first call with a result that is not finite.
    pub fn first_not_finite(&self) -> Option<usize> {
        self.calls.iter().position(|results| {
            let mut computed = results.iter().flatten();
            computed.any(|values| !values.range.is_finite())
        })
    }
}
