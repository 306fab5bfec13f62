//! `cargo xtask cuda cache`: compiles with the true NVRTC what the steps of the plan launch, and all that CubeCL's tuning
//! chooses from, into the cache in which CubeCL looks for kernels.
//!
//! On a GPU machine this would be done on the clock. Kernels are known by their names and arguments, which are those of
//! every program that trains the model.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::{
    dry,
    plan::{Choice, Run},
    stand_in::{self, StandIn},
    toolkit::{self, Toolkit},
};

/// That of the stand-in's device, for which CubeCL has the kernels compiled.
const COMPUTE_CAPABILITY: &str = "9.0";

/// The options of `cargo xtask cuda cache`.
#[derive(Args)]
pub struct Options {
    /// The folder of the cache, which is created, or added to
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
    #[command(flatten)]
    pub choice: Choice,
    /// Takes this program, which was built from `examples/lab` before, instead of building it
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// The GPUs for which kernels are compiled, and the oldest CUDA version whose driver loads them.
pub fn kernels_are_for() -> Value {
    json!({ "compute_capability": COMPUTE_CAPABILITY, "cuda": toolkit::VERSION })
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if the compiler cannot be had, or a run fails.
pub fn run(options: &Options) -> Result<()> {
    let runs = options.choice.runs()?;
    fs::create_dir_all(&options.into).with_context(|| options.into.display().to_string())?;
    let into = fs::canonicalize(&options.into)?;
    let compiler = Toolkit::get()?.root()?;
    let stand_in = StandIn::build()?;
    let program = match &options.program {
        Some(program) => {
            fs::canonicalize(program).with_context(|| program.display().to_string())?
        }
        None => dry::build()?,
    };
    for run in runs {
        let start = Instant::now();
        fill(&run, &program, &stand_in, &compiler, &into).with_context(|| run.to_string())?;
        let (files, bytes) = size(&into)?;
        println!(
            "{:5.0} s  {run}: {bytes} bytes in {files} files",
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Takes the steps of a run with the true compiler. What it launches, and what it tunes, is in the cache then. Takes them
/// again with the stand-in's compiler, which must have nothing to do.
fn fill(run: &Run, program: &Path, stand_in: &StandIn, compiler: &Path, into: &Path) -> Result<()> {
    let folder = stand_in::work()?.join("cache").join(run.file_name());
    let step = || -> Result<Command> {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        // Nothing of the tuning is kept: here no kernel is the fastest.
        let tuned = folder.join("tuned");
        let text = format!(
            "[autotune]\ncache = {{ file = {tuned:?} }}\n\n[compilation]\ncache = {{ file = {into:?} }}\n"
        );
        fs::write(folder.join("cubecl.toml"), text)?;
        let mut command = Command::new(program);
        command.current_dir(&folder).args(run.arguments());
        Ok(command)
    };
    let mut compiles = step()?;
    stand_in.put_under_with(&mut compiles, compiler);
    stand_in::succeed(&mut compiles)?;

    let mut finds = step()?;
    let sources = folder.join("sources");
    fs::create_dir(&sources)?;
    stand_in.put_under(&mut finds, &sources, &folder.join("log"));
    stand_in::succeed(&mut finds)?;
    let compiled = fs::read_dir(&sources)?.count();
    ensure!(compiled == 0, "{compiled} kernels are not found again");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// The number of files below a folder, and their bytes.
fn size(folder: &Path) -> Result<(usize, u64)> {
    let mut total = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (files, bytes) = match entry.file_type()?.is_dir() {
            true => size(&entry.path())?,
            false => (1, entry.metadata()?.len()),
        };
        total = (total.0 + files, total.1 + bytes);
    }
    Ok(total)
}
