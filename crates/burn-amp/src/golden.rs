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

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use burn_amp_decorator::{
    Amped, effective_config,
    replay::{ReadError, Step, changes, write_next_step},
};

/// The steps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    /// The backend and the compute dtype: other ones may compute other bits.
    name: String,
    steps: Vec<[u32; 2]>,
    /// The file to which the first step is written.
    calls: Option<PathBuf>,
}

/// The reason why a run is not the golden one.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The file cannot be read or written.
    #[error("{file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The calls of the first step cannot be read.
    #[error("the calls of the first step, {file}: {error}")]
    Calls {
        /// The file.
        file: String,
        /// What is wrong with it.
        error: ReadError,
    },
    /// A line of the file is none of a golden run.
    #[error(
        "{file}:{line}: expected `[name]`, or the number of a step and two numbers of 32 bits in hexadecimal digits"
    )]
    Syntax {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// The file has no run of this backend and dtype.
    #[error("{file} has no run of {name}, but {found}; BLESS=1 adds it")]
    Missing {
        /// The file.
        file: String,
        /// The backend and the dtype.
        name: String,
        /// The runs that it has.
        found: String,
    },
    /// The runs have different numbers of steps.
    #[error("{name}: {found} steps, and {expected} in the file")]
    Steps {
        /// The backend and the dtype.
        name: String,
        /// The steps of this run.
        found: usize,
        /// The steps in the file.
        expected: usize,
    },
    /// A step computes other bits.
    #[error(
        "{name}: the {what} of step {step} is {found:e}, and {expected:e} in the file, {ulps} units in the last place away. {cause}"
    )]
    Differs {
        /// The backend and the dtype.
        name: String,
        /// The step, counted from 1.
        step: usize,
        /// The loss or the gradient norm.
        what: &'static str,
        /// The value of this run.
        found: f32,
        /// The value in the file.
        expected: f32,
        /// The units in the last place between them.
        ulps: u32,
        /// The first call that is another one, or how to find it.
        cause: String,
    },
}

/// The runs of a file by their names.
type Runs = BTreeMap<String, Vec<[u32; 2]>>;

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
        let runs = read(file)?;
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
        let mut runs = match read(file) {
            Err(GoldenError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                Runs::new()
            }
            runs => runs?,
        };
        runs.insert(self.name.clone(), self.steps.clone());
        let mut text =
            "# The loss and the gradient norm of each step, as the bits of an f32.\n".to_owned();
        for (name, steps) in runs {
            text += &format!("\n[{name}]\n");
            for (at, [loss, norm]) in steps.into_iter().enumerate() {
                text += &format!("{} {loss:08x} {norm:08x}\n", at + 1);
            }
        }
        let io = |file: &Path, error| GoldenError::Io {
            file: file.display().to_string(),
            error,
        };
        fs::write(file, text).map_err(|error| io(file, error))?;
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

/// Reads the runs of a file.
fn read(file: &Path) -> Result<Runs, GoldenError> {
    let name = file.display().to_string();
    let text = fs::read_to_string(file).map_err(|error| GoldenError::Io {
        file: name.clone(),
        error,
    })?;
    let mut runs = Runs::new();
    let mut run: Option<&mut Vec<[u32; 2]>> = None;
    for (at, line) in text.lines().enumerate() {
        let syntax = || GoldenError::Syntax {
            file: name.clone(),
            line: at + 1,
        };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            run = Some(runs.entry(name.to_owned()).or_default());
            continue;
        }
        let steps = run.as_mut().ok_or_else(syntax)?;
        let words: Vec<_> = line.split_whitespace().collect();
        let [step, loss, norm] = words[..] else {
            return Err(syntax());
        };
        let bits = |word| u32::from_str_radix(word, 16).map_err(|_| syntax());
        if step.parse() != Ok(steps.len() + 1) {
            return Err(syntax());
        }
        steps.push([bits(loss)?, bits(norm)?]);
    }
    Ok(runs)
}

/// The bits of an F32 as a number that is ordered as the F32 are.
fn ordered(bits: u32) -> i32 {
    let bits = bits as i32;
    if bits < 0 { i32::MIN - bits } else { bits }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::Flex,
        tensor::{ElementConversion, Tensor},
    };

    use super::*;

    fn run(values: &[f32]) -> Golden {
        let mut golden = Golden {
            name: "flex bf16".into(),
            steps: Vec::new(),
            calls: None,
        };
        values.iter().for_each(|x| golden.step(*x, 2.0 * x));
        golden
    }

    #[test]
    fn a_run_is_its_own_golden_one_and_one_unit_more_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("golden.txt");
        let first = run(&[1.5, -0.25, f32::NAN]);
        first.write(&file).unwrap();
        first.check(&file).unwrap();
        let other = Golden {
            name: "vulkan f16".into(),
            ..run(&[1.0])
        };
        let error = other.check(&file).unwrap_err().to_string();
        assert!(
            error.ends_with("golden.txt has no run of vulkan f16, but flex bf16; BLESS=1 adds it"),
            "{error}"
        );
        other.write(&file).unwrap();
        first.check(&file).unwrap();

        let mut moved = run(&[1.5]);
        moved
            .steps
            .push([(-0.25f32).to_bits() + 1, (-0.5f32).to_bits()]);
        let error = moved.check(&file).unwrap_err();
        assert!(
            matches!(
                error,
                GoldenError::Differs {
                    step: 2,
                    what: "loss",
                    ulps: 1,
                    ..
                }
            ),
            "{error}"
        );
        let error = run(&[1.5, -0.25]).check(&file).unwrap_err().to_string();
        assert_eq!(error, "flex bf16: 2 steps, and 3 in the file");
    }

    #[test]
    fn a_wrong_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("golden.txt");
        for (text, line) in [
            ("1 0 0", 1),
            ("[a]\n2 0 0", 2),
            ("[a]\n1 0", 2),
            ("# x\n[a]\n1 0 xyz", 3),
        ] {
            fs::write(&file, text).unwrap();
            let error = run(&[1.0]).check(&file).unwrap_err();
            assert!(
                matches!(error, GoldenError::Syntax { line: found, .. } if found == line),
                "{text}: {error}"
            );
        }
    }

    type B = crate::Autodiff<crate::Amp<Flex>>;

    /// A run of one step, whose calls are recorded: the sum of the scaled squares of `w`.
    fn recorded(w: [f32; 2], scale: f32) -> Golden {
        let device = Default::default();
        let mut golden = Golden::of::<B>(&device).with_calls::<B>(&device);
        let w = Tensor::<B, 1>::from_floats(w, &device).require_grad();
        let loss = (w.clone() * w * scale).sum();
        golden.step(loss.clone().into_scalar().elem(), 0.0);
        loss.backward();
        golden
    }

    #[test]
    fn the_call_that_is_another_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("golden.txt");
        let first = recorded([1.5, 2.0], 2.0);
        first.write(&file).unwrap();
        let beside = folder
            .path()
            .join("golden.amp-autodiff-flex-f32.safetensors");
        let step = Step::read(&beside).unwrap();
        assert_eq!((step.calls.len(), step.data.len()), (3, 0));

        let again = recorded([1.5, 2.0], 2.0);
        again.check(&file).unwrap();
        assert!(!again.calls.unwrap().exists());

        let told = |golden: Golden| {
            let error = golden.check(&file).unwrap_err();
            let GoldenError::Differs { cause, .. } = error else {
                panic!("{error}");
            };
            fs::remove_file(golden.calls.unwrap()).unwrap();
            cause
        };
        let other_data = told(recorded([1.5, 2.5], 2.0));
        assert!(
            other_data.starts_with("In the first step, argument 0 of call 0, `float_mul`")
                && other_data.contains("`burn-amp replay "),
            "{other_data}"
        );
        let other_call = told(recorded([1.5, 2.0], 3.0));
        assert!(
            other_call.starts_with("In the first step, another call: call 1, `float_mul_scalar`"),
            "{other_call}"
        );

        let mut later = recorded([1.5, 2.0], 2.0);
        later.steps[0][0] += 1;
        let later = told(later);
        assert!(
            later.starts_with("No call of the first step is another one")
                && later.contains("BURN_AMP_REPLAY_STEP=1"),
            "{later}"
        );
        fs::remove_file(&beside).unwrap();
        let missing = told(recorded([1.0, 2.0], 2.0));
        assert!(missing.starts_with("There is no "), "{missing}");
    }

    #[test]
    fn units_are_counted_across_zero() {
        assert_eq!(ordered((-0.0f32).to_bits()), ordered(0.0f32.to_bits()));
        let [below, above] = [-f32::from_bits(1), f32::from_bits(2)].map(f32::to_bits);
        assert_eq!(ordered(below).abs_diff(ordered(above)), 3);
    }
}
