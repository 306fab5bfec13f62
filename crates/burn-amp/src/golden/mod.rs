//! Test support: the loss and the gradient norm of each step of a run, as bits, compared with a file.
//!
//! A [snapshot](crate::diagnose::snapshot) of the precision tells that a dtype changed, not that a number did. A golden run
//! does: after an upgrade of Burn or of burn-amp, or a change to the model, each step computes the same bits, or the first one
//! that does not is named, and [with the calls](Golden::with_calls) of the first step, the op.
//!
//! ```
//! # use burn::{backend::Flex, nn::LinearConfig, optim::{GradientsParams, Optimizer, SgdConfig}, tensor::{ElementConversion, Tensor}};
//! use burn_amp::{golden::Golden, optim::{AmpOptimizer, GradientNorm}};
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("golden.txt");
//! # fn run(file: &std::path::Path) -> Result<(), burn_amp::golden::GoldenError> {
//! # use burn::tensor::backend::Backend;
//! # type B = burn_amp::Autodiff<burn_amp::Amp<Flex>>;
//! # let device = Default::default();
//! # B::seed(&device, 0);
//! # let mut model = LinearConfig::new(4, 2).init::<B>(&device);
//!
//! let norm = GradientNorm::default();
//! let mut optimizer = AmpOptimizer::new(SgdConfig::new()).init().with_gradient_norm(&norm);
//! let mut golden = Golden::of::<B>(&device).with_calls::<B>(&device);
//! for _ in 0..20 {
//! #   let batch = Tensor::<B, 2>::ones([3, 4], &device);
//!     let loss = model.forward(batch).square().mean();
//!     let value: f32 = loss.clone().into_scalar().elem();
//!     let grads = GradientsParams::from_grads(loss.backward(), &model);
//!     model = optimizer.step(0.1, model, grads);
//!     golden.step(value, norm.value().unwrap_or_default() as f32);
//! }
//! golden.check(file)?; // `BLESS=1 cargo test` writes it
//! # Ok(())
//! # }
//! # assert!(run(&file).is_err(), "there is no such file yet");
//! # Ok::<(), std::io::Error>(())
//! ```

mod error;
mod file;
#[cfg(test)]
mod tests;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use burn_amp_decorator::{
    Amped, effective_config,
    replay::{Step, changes, write_next_step},
};

pub use self::error::GoldenError;

/// The steps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    /// The backend and the compute dtype: other ones may compute other bits.
    name: String,
    steps: Vec<[u32; 2]>,
    /// The file to which the first step is written.
    calls: Option<PathBuf>,
}

impl Golden {
    /// Begins a run on a device.
    ///
    /// # Panics
    ///
    /// Panics if the configuration is wrong; see [`effective_config`].
    pub fn of<B: Amped>(device: &B::Device) -> Self {
        let config = effective_config::<B>(device);
        let compute = config.unwrap_or_else(|error| panic!("{error}")).compute;
        Self {
            name: format!("{} {compute}", B::name(device)),
            steps: Vec::new(),
            calls: None,
        }
    }

    /// Records the calls of the next step on the device, so that the first one that computes other bits is named.
    ///
    /// `BLESS` writes them beside the file, `golden.txt` with `golden.amp-autodiff-flex-bf16.safetensors`: the shapes and hashes
    /// of tensors, but no values. A run that differs leaves its step in the folder of temporary files, with values unless
    /// `replay.with_values` is false, for `burn-amp replay`.
    pub fn with_calls<B: Amped>(self, device: &B::Device) -> Self {
        /// Tells the runs of a process apart.
        static RUN: AtomicU32 = AtomicU32::new(0);
        let run = RUN.fetch_add(1, Ordering::Relaxed);
        let file = format!("burn-amp-golden-{}-{run}.safetensors", process::id());
        let file = env::temp_dir().join(file);
        write_next_step::<B>(device, &file);
        Self {
            calls: Some(file),
            ..self
        }
    }

    /// Adds a step.
    pub fn step(&mut self, loss: f32, gradient_norm: f32) {
        self.steps.push([loss, gradient_norm].map(f32::to_bits));
    }

    /// Compares the run with that of the same backend and dtype in a file. With the variable `BLESS` it writes it to the file,
    /// beside those of other backends.
    ///
    /// # Errors
    ///
    /// The first difference, or what is wrong with the file.
    pub fn check(&self, file: &Path) -> Result<(), GoldenError> {
        if env::var_os("BLESS").is_some() {
            return self.write(file);
        }
        let runs = file::read(file)?;
        let Some(expected) = runs.get(&self.name) else {
            let found: Vec<_> = runs.keys().map(String::as_str).collect();
            return Err(GoldenError::Missing {
                file: file.display().to_string(),
                name: self.name.clone(),
                found: found.join(", "),
            });
        };
        let steps = self.steps.iter().zip(expected).enumerate();
        for (at, (found, expected)) in steps {
            for (which, what) in ["loss", "gradient norm"].into_iter().enumerate() {
                let (found, expected) = (found[which], expected[which]);
                if found != expected {
                    return Err(GoldenError::Differs {
                        name: self.name.clone(),
                        step: at + 1,
                        what,
                        found: f32::from_bits(found),
                        expected: f32::from_bits(expected),
                        ulps: ordered(found).abs_diff(ordered(expected)),
                        cause: self.cause(file, at + 1)?,
                    });
                }
            }
        }
        if self.steps.len() != expected.len() {
            return Err(GoldenError::Steps {
                name: self.name.clone(),
                found: self.steps.len(),
                expected: expected.len(),
            });
        }
        if let Some(calls) = &self.calls {
            // What cannot be removed is left to the system.
            let _ = fs::remove_file(calls);
        }
        Ok(())
    }

    /// Says why a step is another one than that of a file.
    fn cause(&self, file: &Path, step: usize) -> Result<String, GoldenError> {
        let (Some(calls), before) = (&self.calls, self.calls_beside(file)) else {
            return Ok(by_hand(step));
        };
        if !before.exists() {
            return Ok(format!(
                "There is no {} with the calls of the first step; BLESS=1 writes it, where the run is the golden one. {}",
                before.display(),
                by_hand(step)
            ));
        }
        let found = changes(&read_calls(&before)?, &read_calls(calls)?);
        Ok(match found.first() {
            Some(change) => format!(
                "In the first step, {change}. `burn-amp replay {} --against {}` tells all",
                before.display(),
                calls.display()
            ),
            None => format!(
                "No call of the first step is another one, so the difference comes from an optimizer, from data, or from values that only \
                 later steps have. {}",
                by_hand(step)
            ),
        })
    }

    /// The file with the calls of the first step, beside that of the run.
    fn calls_beside(&self, file: &Path) -> PathBuf {
        let words = self.name.split(|c: char| !c.is_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        file.with_extension(format!("{}.safetensors", words.join("-")))
    }

    /// Writes the run to a file, in place of the one with the same name.
    fn write(&self, file: &Path) -> Result<(), GoldenError> {
        let mut runs = match file::read(file) {
            Err(GoldenError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                file::Runs::new()
            }
            runs => runs?,
        };
        runs.insert(self.name.clone(), self.steps.clone());
        let io = |file: &Path, error| GoldenError::Io {
            file: file.display().to_string(),
            error,
        };
        fs::write(file, file::text(&runs)).map_err(|error| io(file, error))?;
        if let Some(calls) = &self.calls {
            let mut step = read_calls(calls)?;
            step.data.clear();
            let beside = self.calls_beside(file);
            step.write(&beside).map_err(|error| io(&beside, error))?;
            let _ = fs::remove_file(calls);
        }
        Ok(())
    }
}

/// How the op is found in two more runs.
fn by_hand(step: usize) -> String {
    format!(
        "Write this step here and where the file is from, with BURN_AMP_REPLAY_STEP={step} and BURN_AMP_REPLAY_OUTPUT; then \
         `burn-amp replay before.safetensors --against after.safetensors` names the op"
    )
}

/// Reads the calls of a step.
fn read_calls(file: &Path) -> Result<Step, GoldenError> {
    Step::read(file).map_err(|error| GoldenError::Calls {
        file: file.display().to_string(),
        error,
    })
}

/// The bits of an F32 as a number that is ordered as the F32 are.
fn ordered(bits: u32) -> i32 {
    let bits = bits as i32;
    if bits < 0 { i32::MIN - bits } else { bits }
}
