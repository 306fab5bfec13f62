//! `burn-amp replay`: runs a step again, or compares it.

use crate::{args::ReplayArgs, failure::Failure};

#[cfg(feature = "replay")]
mod compared;

#[cfg(feature = "replay")]
pub fn run(args: &ReplayArgs, as_json: bool) -> Result<String, Failure> {
    use std::fmt::Display;

    use burn::backend::Flex;
    use burn_amp::replay::{gradient_ranges, recipe_losses, replay};
    use serde_json::json;

    use crate::args::Against;

    let file = &args.file;
    let mut step = read(file)?;
    if let Some(Against::Step(other)) = &args.against {
        let runs = args.on.is_some() || args.compute.is_some() || args.program.is_some();
        if runs || args.tolerance.is_some() {
            return Err(Failure::Usage(
                "two files are compared bit for bit, without running: leave --on, --compute, --program and --tolerance out"
                    .into(),
            ));
        }
        return compared::with_step(&step, &read(other)?, as_json);
    }
    if let Some(compute) = args.compute {
        compared::in_dtype(&mut step, compute)?;
    }
    if args.on.is_some() || args.against.is_some() {
        return quietly(|| compared::with_backend(&step, args, as_json));
    }
    let device = Default::default();
    let wrong = |reason: &dyn Display| Failure::Wrong(format!("{}: {reason}", file.display()));
    if args.gradients {
        let ranges = quietly(|| gradient_ranges::<Flex>(&step, &device));
        let ranges = ranges.as_ref().map_err(|reason| wrong(reason))?;
        return Ok(match as_json {
            true => format!("{:#}\n", json!(ranges)),
            false => ranges.to_text(args.all),
        });
    }
    if args.recipes || args.simulate.is_some() {
        let losses = quietly(|| recipe_losses::<Flex>(&step, &device));
        let losses = losses.as_ref().map_err(|reason| wrong(reason))?;
        return Ok(match (args.simulate, as_json) {
            (Some(recipe), true) => format!("{}\n", json!({ "toml": losses.to_config(recipe) })),
            (Some(recipe), false) => losses.to_config(recipe),
            (None, true) => format!("{:#}\n", json!(losses)),
            (None, false) => losses.to_text(args.all),
        });
    }
    let replayed = quietly(|| replay::<Flex>(&step, &device));
    let form = replayed.recorded.as_ref().map_err(|reason| wrong(reason))?;
    Ok(match as_json {
        true => format!(
            "{:#}\n",
            json!({
                "cause": step.cause,
                "same_bits": form.same(&step),
                "calls": step.calls,
                "recorded": form,
                "f32": replayed.f32.as_ref().ok(),
                "f64": replayed.f64.as_ref().ok(),
            })
        ),
        false => replayed.to_text(&step, args.all),
    })
}

/// Runs a step. An op that does not run in some form is told as the outcome of that form.
#[cfg(feature = "replay")]
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = run();
    let _ = std::panic::take_hook();
    outcome
}

/// Reads a step.
#[cfg(feature = "replay")]
fn read(file: &std::path::Path) -> Result<burn_amp::replay::Step, Failure> {
    crate::input::file(
        file,
        "a step that a run has written, as `replay.output` says",
    )?;
    let step = burn_amp::replay::Step::read(file);
    step.map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

#[cfg(not(feature = "replay"))]
pub fn run(args: &ReplayArgs, _: bool) -> Result<String, Failure> {
    Err(Failure::Usage(format!(
        "{}: this `burn-amp` was built without the feature `replay`; `cargo install burn-amp-cli` builds it with it",
        args.file.display()
    )))
}
