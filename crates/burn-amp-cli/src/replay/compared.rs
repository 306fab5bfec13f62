//! A step compared with another backend, dtype or step.

use std::{fs, path::Path};

use burn::backend::Flex;
use burn_amp::{
    config::{Compute, Config, Precision},
    extend::Trainable,
    replay::{Comparison, ReplayError, Side, Step, changes, compare},
};
use burn_amp_core::Preset;
use indicatif::ProgressBar;
use serde_json::json;

use crate::{
    args::{Against, Backend, ReplayArgs},
    failure::Failure,
};

/// What differs between two files.
pub fn with_step(before: &Step, after: &Step, as_json: bool) -> Result<String, Failure> {
    let changes = changes(before, after);
    let text = match (as_json, changes.is_empty()) {
        (true, _) => format!("{:#}\n", json!({ "changes": changes })),
        (false, true) => "Every call has the same bits.\n".into(),
        (false, false) => changes.iter().map(|change| format!("{change}\n")).collect(),
    };
    match changes.is_empty() {
        true => Ok(text),
        false => Err(Failure::Differs(text)),
    }
}

/// Changes the compute dtype of a step.
pub fn in_dtype(step: &mut Step, compute: Compute) -> Result<(), Failure> {
    let config = Config::from_toml(&step.config, Path::new("amp.toml"));
    let mut config = config.map_err(|error| Failure::Usage(error.to_string()))?;
    config.compute = compute;
    if compute == Compute::F32 {
        config.preset = Preset::O1;
    }
    step.config = config.to_string();
    Ok(())
}

/// A step that is compared with a reference.
struct Beside<'a> {
    step: &'a Step,
    reference: Side<'a, Flex>,
    tolerance: f64,
    bar: &'a ProgressBar,
}

impl Beside<'_> {
    /// Runs it on the default device of a backend, whose type has this path in a program.
    fn on<S: Trainable>(&self, path: &str) -> Result<Comparison, ReplayError> {
        let subject = Side::<S> {
            device: &Default::default(),
            path,
            all_in: None,
        };
        let begins = |_| self.bar.inc(1);
        compare(self.step, &subject, &self.reference, self.tolerance, begins)
    }
}

/// Runs each call on two sides.
pub fn with_backend(step: &Step, args: &ReplayArgs, as_json: bool) -> Result<String, Failure> {
    let bar = ProgressBar::new(2 * step.calls.len() as u64 + 2);
    let on = args.on.unwrap_or(Backend::Flex);
    let all_in = match args.against {
        Some(Against::F32) => Some(Precision::F32),
        Some(Against::Flex | Against::Step(_)) | None => None,
    };
    let reference = Side::<Flex> {
        device: &Default::default(),
        path: "burn::backend::Flex",
        all_in,
    };
    let beside = Beside {
        step,
        reference,
        tolerance: args.tolerance.unwrap_or(1.0),
        bar: &bar,
    };
    let comparison = match on {
        Backend::Flex => beside.on::<Flex>("burn::backend::Flex"),
        #[cfg(feature = "vulkan")]
        Backend::Vulkan => beside.on::<burn::backend::Vulkan>("burn::backend::Vulkan"),
        #[cfg(feature = "cuda")]
        Backend::Cuda => beside.on::<burn::backend::Cuda>("burn::backend::Cuda"),
        #[allow(
            unreachable_patterns,
            reason = "which there are depends on the features"
        )]
        other => {
            let name = other.name();
            return Err(Failure::Usage(format!(
                "--on {name}: this `burn-amp` was built without {name}; \
                 `cargo install burn-amp-cli --features {name}` builds it with it"
            )));
        }
    };
    bar.finish_and_clear();
    let comparison =
        comparison.map_err(|error| Failure::Wrong(format!("{}: {error}", args.file.display())))?;
    if let Some(file) = &args.program {
        write_program(&comparison, file)?;
    }
    let text = match as_json {
        true => format!("{:#}\n", json!(comparison)),
        false => comparison.to_text(step, args.all),
    };
    match comparison.differences.is_empty() {
        true => Ok(text),
        false => Err(Failure::Differs(text)),
    }
}

/// Writes the program of the first difference.
fn write_program(comparison: &Comparison, file: &Path) -> Result<(), Failure> {
    let first = comparison.differences.first();
    match first.and_then(|first| first.program.as_ref()) {
        Some(program) => fs::write(file, program)
            .map_err(|error| Failure::Usage(format!("{}: {error}", file.display()))),
        None if first.is_none() => Ok(()),
        None => Err(Failure::Wrong(
            "no program shows the first difference: plain Burn computes the same on both backends"
                .into(),
        )),
    }
}
