//! Each call of a step on two backends, with the same operands.

use burn_amp_core::{
    Precision,
    overflow::Locate,
    replay::{Beside, Compared, Comparison, Step, TensorDifference},
};
use burn_amp_kernels::names::{dtype_of, shape_of};
use burn_backend::{TensorData, tensor::Device};

use super::{
    program,
    run::{self, Ran, ReplayError},
    unit::{self, Computed, Nudge, Unit},
};
use crate::{distributed::Trainable, policy::Context, precision};

/// A backend of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a, B: Trainable> {
    /// The device.
    pub device: &'a Device<B>,
    /// The path of the type in a program: `burn::backend::Flex`.
    pub path: &'a str,
    /// The dtype of all tensors, if it is not that of the step: [`Precision::F32`] of a reference shows where a low
    /// precision loses more than the rounding of operands does.
    pub all_in: Option<Precision>,
}

/// The samples of a spread, and those that are taken before a difference is reported.
const SAMPLES: [usize; 2] = [4, 64];

/// Runs a step on `subject`, and each of its calls on `reference` with the operands that it had there, forward and
/// backward.
///
/// A result or a gradient is a difference if it is more than `tolerance` times as far from the exact one as its dtype allows,
/// and farther than that of the reference. The exact one is computed by the reference in F64, so a reference needs F64: Flex
/// has it. Errors of operands do not add up, since each call gets those of the subject. `begins` is told the number of each call that is
/// about to run: those of the step and one more for its backward pass, then those that are run one by one, and one more for
/// the program of the first difference.
///
/// # Errors
///
/// The step cannot be run on the subject as a whole, or the file has no values. A call that cannot be run on one of the
/// backends by itself is among those that were [not compared](Comparison::not_compared).
///
/// ```no_run
/// use std::path::Path;
/// use burn::backend::Flex;
/// use burn_amp::replay::{Side, Step, compare};
///
/// # type Vulkan = Flex;
/// let step = Step::read(Path::new("step.safetensors"))?;
/// let device = Default::default();
/// let vulkan = Side::<Vulkan> { device: &device, path: "burn::backend::Vulkan", all_in: None };
/// let flex = Side::<Flex> { device: &device, path: "burn::backend::Flex", all_in: None };
/// let comparison = compare(&step, &vulkan, &flex, 1.0, |_| ())?;
/// println!("{}", comparison.to_text(&step, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare<S: Trainable, R: Trainable>(
    step: &Step,
    of_subject: &Side<S>,
    of_reference: &Side<R>,
    tolerance: f64,
    mut begins: impl FnMut(usize),
) -> Result<Comparison, ReplayError> {
    let (subject, reference) = (of_subject.device, of_reference.device);
    let config = |all_in| run::config(step, all_in, Locate::Off);
    let [form, other_form] = [of_subject.all_in, of_reference.all_in];
    let on_subject = Context::<S>::apart(config(form)?, subject)?;
    let on_reference = Context::<R>::apart(config(other_form)?, reference)?;
    let exactly = Context::<R>::apart(config(Some(Precision::F64))?, reference)?;
    let ran = run::ran(
        step,
        subject,
        form,
        on_subject,
        unit::read::<S>,
        &mut begins,
    )?;
    let mut comparison = Comparison {
        subject: S::name(subject),
        reference: match other_form {
            Some(dtype) => format!("{} in {dtype}", R::name(reference)),
            None => R::name(reference),
        },
        ..Comparison::default()
    };
    let mut gradients = Vec::new();
    let makers = unit::makers(step);
    for at in 0..step.calls.len() {
        begins(at);
        let unit = Unit::of(step, &ran, &makers, at);
        let exact = |nudge| unit.run(step, reference, exactly, Some(Precision::F64), nudge);
        let compared = || {
            let expected = unit.run(step, reference, on_reference, other_form, None)?;
            let found = match unit.received {
                Some(_) => Some(unit.run(step, subject, on_subject, form, None)?),
                None => None,
            };
            Ok::<_, ReplayError>((found, expected, exact(None)?))
        };
        let (found, expected, sure) = match compared() {
            Ok(compared) => compared,
            Err(error) => {
                comparison.not_compared.push((at, error.to_string()));
                continue;
            }
        };
        let mut looked = UnitTensors {
            step,
            unit: &unit,
            low: Some(on_subject.policy.compute()).filter(|compute| compute.is_low()),
            is_wider: form != other_form,
            tolerance,
            exact: &exact,
            nudged: Vec::new(),
        };
        let results = computed(&ran, at);
        for (place, found) in results {
            let what = Compared::Result(place);
            comparison.results += 1;
            let tensors = [found, &expected.results[place], &sure.results[place]];
            comparison
                .differences
                .extend(looked.difference(what, tensors));
        }
        let mut of_call = Vec::new();
        for (id, found) in found.iter().flat_map(|found| &found.gradients) {
            let beside = (expected.gradients.get(id), sure.gradients.get(id));
            let (Some(expected), Some(sure)) = beside else {
                continue;
            };
            comparison.gradients += 1;
            let what = Compared::Gradient(*id);
            of_call.extend(looked.difference(what, [found, expected, sure]));
        }
        gradients.push(of_call);
    }
    let in_order_of_backward = gradients.into_iter().rev().flatten();
    comparison.differences.extend(in_order_of_backward);
    begins(step.calls.len());
    if let Some(first) = comparison.differences.first_mut() {
        let unit = Unit::of(step, &ran, &makers, first.call);
        first.program = program::of(step, &unit, first, of_subject, of_reference);
    }
    Ok(comparison)
}

/// The results of a call that have been computed, by their places.
fn computed(ran: &Ran<TensorData>, at: usize) -> impl Iterator<Item = (usize, &TensorData)> {
    let results = ran.calls[at].iter().enumerate();
    results.filter_map(|(place, seen)| Some((place, seen.values.as_ref()?)))
}

/// A unit whose tensors are looked at.
struct UnitTensors<'a, F> {
    step: &'a Step,
    unit: &'a Unit<'a>,
    low: Option<Precision>,
    is_wider: bool,
    tolerance: f64,
    /// Computes the unit in F64.
    exact: &'a F,
    /// What it computes of operands that are rounded otherwise, by how much they are.
    nudged: Vec<(f64, Computed)>,
}

impl<F: Fn(Option<Nudge>) -> Result<Computed, ReplayError>> UnitTensors<'_, F> {
    /// Describes a tensor if it differs by more than its dtype allows: `[found, expected, exact]`.
    fn difference(
        &mut self,
        what: Compared,
        tensors: [&TensorData; 3],
    ) -> Option<TensorDifference> {
        let stored = precision::from_burn(dtype_of(tensors[0]));
        let shape = shape_of(tensors[0]).as_slice().to_vec();
        let [found, expected, exact] = tensors.map(|data| data.iter::<f64>().collect::<Vec<_>>());
        let mut beside = Beside {
            op: &self.step.calls[self.unit.at].op,
            what,
            calls: self.unit.calls.len(),
            found: &found,
            expected: &expected,
            exact: &exact,
            spread: Vec::new(),
            stored,
            low: self.low,
            is_wider: self.is_wider,
            tolerance: self.tolerance,
        };
        if beside.is_near() {
            return None;
        }
        // Most tensors are as near as one rounding. For the others it is found out what roundings in between may do: those of
        // sums, and where the reference rounds more than once, those to low precision.
        let of_sums = self.unit.roundings(stored.join(Precision::F32));
        let mut far = None;
        for samples in SAMPLES {
            beside.spread = self.spread(what, &exact, of_sums, samples)?;
            if let Some(low) = self.low.filter(|_| beside.is_rounded_often()) {
                let by = low.epsilon().max(of_sums);
                beside.spread = self.spread(what, &exact, by, samples)?;
            }
            far = Some(beside.differ()?);
        }
        let Unit { at, calls, .. } = self.unit;
        Some(beside.difference(far?, shape, *at, calls.clone()))
    }

    /// How much exact values move if operands are multiplied by numbers that differ from 1 `by` that much.
    fn spread(
        &mut self,
        what: Compared,
        exact: &[f64],
        by: f64,
        samples: usize,
    ) -> Option<Vec<f64>> {
        let taken = |nudged: &[(f64, Computed)]| nudged.iter().filter(|(of, _)| *of == by).count();
        for sample in taken(&self.nudged)..samples {
            let computed = (self.exact)(Some(Nudge { sample, by })).ok()?;
            self.nudged.push((by, computed));
        }
        let mut spread = vec![0.0; exact.len()];
        for (_, nudged) in self.nudged.iter().filter(|(of, _)| *of == by) {
            let values = nudged
                .of(what)
                .into_iter()
                .flat_map(|values| values.iter::<f64>());
            for ((spread, exact), nudged) in spread.iter_mut().zip(exact).zip(values) {
                let moved = (nudged - exact).abs();
                if moved > *spread {
                    *spread = moved;
                }
            }
        }
        Some(spread)
    }
}
