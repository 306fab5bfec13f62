//! What a terminal shows of a step that was run again.

use std::fmt::Write as _;

use super::{Form, Replayed, Step, Values};
use crate::{columns::columns, overflow::Range};

/// How many calls are shown before and after the one with which the overflow began, unless all are.
const AROUND: usize = 8;

impl Replayed {
    /// Writes what each form of the step did: where it first was not finite, and the ranges of the calls around that, or
    /// of `all` calls.
    pub fn to_text(&self, step: &Step, all: bool) -> String {
        let mut text = String::new();
        let mut line = |args: std::fmt::Arguments| {
            text.write_fmt(args).expect("a string takes any text");
            text.push('\n');
        };
        let scale = step
            .scale
            .map_or("not scaled".into(), |scale| format!("scaled by {scale}"));
        line(format_args!(
            "A step on {}, written by burn-amp {}: {} calls, the loss {scale}.",
            step.backend,
            step.burn_amp,
            step.calls.len(),
        ));
        let cut = step.outside.iter().filter(|outside| outside.is_cut).count();
        match cut {
            0 => {}
            1 => line(format_args!(
                "A tensor was made before the step, or by an op that is not in the table; no gradient passes it."
            )),
            _ => line(format_args!(
                "{cut} tensors were made before the step, or by ops that are not in the table; no gradient passes them."
            )),
        }
        if let Some(cause) = &step.cause {
            line(format_args!("As it ran: first in {cause}."));
        }
        let forms = self.forms();
        for (name, form) in &forms {
            line(format_args!(""));
            match form {
                Err(reason) => line(format_args!("{name}: not run: {reason}")),
                Ok(form) => line(format_args!("{name}: {}", form.told())),
            }
        }
        if let Ok(form) = &self.recorded {
            line(format_args!(""));
            line(format_args!("{}", bits(form, step)));
        }
        let rows = self.rows(step, all);
        line(format_args!(""));
        // A row of a gradient has no number.
        let shown = rows.iter().skip(1).filter(|row| !row[0].is_empty());
        let hidden = step.calls.len() - shown.count();
        if rows.len() > 1 {
            line(format_args!("{}", columns(&rows, |_| false).join("\n")));
        }
        if hidden > 0 {
            line(format_args!(
                "{hidden} calls are not shown; `--all` shows them."
            ));
        }
        text
    }

    /// The forms by their names.
    fn forms(&self) -> [(&'static str, &Result<Form, String>); 3] {
        [
            ("In the recorded dtypes", &self.recorded),
            ("In f32", &self.f32),
            ("In f64", &self.f64),
        ]
    }

    /// A header and a row per call: the ranges of its result and of the gradient of its result in each form.
    fn rows(&self, step: &Step, all: bool) -> Vec<Vec<String>> {
        let at = |form: &Result<Form, String>| form.as_ref().ok()?.begins(step);
        let begins: Vec<_> = self
            .forms()
            .iter()
            .filter_map(|(_, form)| at(form))
            .collect();
        let is_shown =
            |call: usize| all || begins.iter().any(|begin| begin.abs_diff(call) <= AROUND);
        let header = ["call", "op", "at", "", "recorded", "f32", "f64"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for (at, call) in step
            .calls
            .iter()
            .enumerate()
            .filter(|(at, _)| is_shown(*at))
        {
            let cell = |of: &dyn Fn(&Form) -> Option<String>| -> Vec<String> {
                let forms = self.forms();
                forms
                    .iter()
                    .map(|(_, form)| form.as_ref().ok().and_then(of).unwrap_or_default())
                    .collect()
            };
            let site = call.site.as_ref().map(|site| match site.line {
                0 => site.function.clone(),
                line => format!("{}:{line}", site.file),
            });
            let head = [at.to_string(), call.op.clone(), site.unwrap_or_default()];
            let values = cell(&|form| form.value(at).map(told));
            rows.push([&head[..], &["result".to_owned()], &values].concat());
            let received = cell(&|form| form.received.get(at)?.as_ref().map(range));
            if received.iter().any(|cell| !cell.is_empty()) {
                let indent = ["", "", "", "gradient"].map(str::to_owned);
                rows.push([&indent[..], &received].concat());
            }
        }
        rows
    }
}

impl Form {
    /// Where the form first was not finite.
    fn told(&self) -> String {
        match &self.cause {
            Some(cause) => format!("first not finite in {cause}."),
            None => "the loss and all gradients are finite.".into(),
        }
    }

    /// The call with which the overflow began.
    fn begins(&self, step: &Step) -> Option<usize> {
        let cause = self.cause.as_ref()?;
        let is_of = |call: &super::Call| call.op == cause.op && call.site == cause.site;
        let first = self.first_not_finite();
        first
            .filter(|at| is_of(&step.calls[*at]))
            .or_else(|| step.calls.iter().rposition(is_of))
            .or(first)
    }

    /// The first result of a call.
    fn value(&self, call: usize) -> Option<&Values> {
        self.calls.get(call)?.first()?.as_ref()
    }
}

fn told(values: &Values) -> String {
    format!("{} {}", values.dtype, range(&values.range))
}

/// A range in few letters.
fn range(range: &Range) -> String {
    range.to_string().replace(" to ", " .. ")
}

/// Whether the form has the recorded bits.
fn bits(form: &Form, step: &Step) -> String {
    let same = form.same(step);
    let mut text = format!(
        "Bits as recorded: {} of {} results, {} of {} gradients.",
        same.results, same.of_results, same.gradients, same.of_gradients
    );
    if let Some(at) = same.first_different {
        let call = &step.calls[at];
        let site = call
            .site
            .as_ref()
            .map_or(String::new(), |site| format!(" at {site}"));
        write!(
            text,
            " The first other one is of call {at}, `{}`{site}.",
            call.op
        )
        .expect("a string takes any text");
    }
    text
}
