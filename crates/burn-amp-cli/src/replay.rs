//! `burn-amp replay`: runs a step that overflowed again.

use crate::{args::ReplayArgs, failure::Failure};

#[cfg(feature = "replay")]
pub fn run(args: &ReplayArgs, as_json: bool) -> Result<String, Failure> {
    use burn::backend::Flex;
    use burn_amp::replay::{Step, replay};
    use serde_json::json;

    use crate::input;

    let ReplayArgs { file, all } = args;
    input::file(file, "a step that `overflow.replay` has written")?;
    let step =
        Step::read(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    // An op that does not run in some form is told as the outcome of that form.
    std::panic::set_hook(Box::new(|_| {}));
    let replayed = replay::<Flex>(&step, &Default::default());
    let _ = std::panic::take_hook();
    let form = replayed.recorded.as_ref();
    let form = form.map_err(|reason| Failure::Wrong(format!("{}: {reason}", file.display())))?;
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
        false => replayed.to_text(&step, *all),
    })
}

#[cfg(not(feature = "replay"))]
pub fn run(args: &ReplayArgs, _: bool) -> Result<String, Failure> {
    let ReplayArgs { file, all: _ } = args;
    Err(Failure::Usage(format!(
        "{}: this `burn-amp` was built without the feature `replay`; `cargo install burn-amp-cli` builds it with it",
        file.display()
    )))
}
