//! What is said of a run that went wrong, or nearly.

use crate::{
    non_finite::Events,
    run::{Outcome, Run},
};

/// How a run that went wrong ended.
pub fn ending(run: &Run) -> String {
    let steps = run.record.steps.len();
    match &run.outcome {
        Outcome::Finished => "It ran to the end, and its validation loss is not finite.".to_owned(),
        Outcome::NonFinite => {
            format!("Stopped after step {steps}: parameters are not finite any more.")
        }
        Outcome::Failed(message) => format!("Failed in step {}: {message}.", steps + 1),
    }
}

/// Where inf and NaN were seen, one sentence for each kind of place.
pub fn non_finite(events: &Events) -> Vec<String> {
    let mut said = Vec::new();
    for seen in events.sightings() {
        let first = seen.first;
        let scale = match first.loss_scale {
            1.0 => String::new(),
            scale => format!(" at a loss scale of {scale}"),
        };
        let steps = match seen.steps {
            1 => String::new(),
            steps => format!(", and in {} steps after it", steps - 1),
        };
        said.push(format!(
            "Non-finite in step {}{scale}: {}{steps}.",
            first.step, first.place
        ));
    }
    said
}
