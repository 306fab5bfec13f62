//! Test support: the loss and the gradient norm of each step of a run, as bits, compared with a file.
//!
//! A [snapshot](crate::diagnose::snapshot) of the precision tells that a dtype changed, not that a number did. A golden run
//! does: after an upgrade of Burn or of burn-amp, or a change to the model, each step computes the same bits, or the first one
//! that does not is named.
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
//! let mut golden = Golden::of::<B>(&device);
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

use std::{collections::BTreeMap, env, fs, io, path::Path};

use burn_amp_decorator::{Amped, effective_config};

/// The steps of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Golden {
    /// The backend and the compute dtype: other ones may compute other bits.
    name: String,
    steps: Vec<[u32; 2]>,
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
        "{name}: the {what} of step {step} is {found:e}, and {expected:e} in the file, {ulps} units in the last place away. \
         Write this step here and where the file is from, with BURN_AMP_REPLAY_STEP={step} and BURN_AMP_REPLAY_OUTPUT; then \
         `burn-amp replay before.safetensors --against after.safetensors` names the op"
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
        Ok(())
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
        fs::write(file, text).map_err(|error| GoldenError::Io {
            file: file.display().to_string(),
            error,
        })
    }
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
    use super::*;

    fn run(values: &[f32]) -> Golden {
        let mut golden = Golden {
            name: "flex bf16".into(),
            steps: Vec::new(),
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

    #[test]
    fn units_are_counted_across_zero() {
        assert_eq!(ordered((-0.0f32).to_bits()), ordered(0.0f32.to_bits()));
        let [below, above] = [-f32::from_bits(1), f32::from_bits(2)].map(f32::to_bits);
        assert_eq!(ordered(below).abs_diff(ordered(above)), 3);
    }
}
