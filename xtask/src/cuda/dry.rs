//! `cargo xtask cuda dry`: takes the steps of the plan on the stand-in driver, and compares them with the table in the
//! repository.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::Mutex,
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{
    log,
    plan::{Choice, Run},
    report,
    stand_in::{self, StandIn},
    step::Step,
    table::Table,
};
use crate::workspace;

/// Processes at a time; each has a thread that launches and one that serves it.
const AT_A_TIME: usize = 2;

/// The options of `cargo xtask cuda dry`.
#[derive(Args, Default)]
pub struct Options {
    #[command(flatten)]
    pub choice: Choice,
    /// Takes this program, which was built from `examples/lab` before, instead of building it
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// Counts the logs of the last runs again, without running anything
    #[arg(long)]
    pub recount: bool,
    /// Lists so many kernels of each run, those that move the most bytes
    #[arg(long, value_name = "COUNT")]
    pub kernels: Option<usize>,
    /// Writes what was found into the table
    #[arg(long)]
    pub write: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if a run fails, or differs from the table and is not to be written.
pub fn run(options: &Options) -> Result<()> {
    let runs = options.choice.runs()?;
    let steps = match options.recount {
        true => runs.iter().map(count).collect::<Result<_>>()?,
        false => take_all(&runs, options.program.as_deref())?,
    };

    if let Some(count) = options.kernels {
        for run in &runs {
            let kernels = Step::kernels(&logged(run)?, source)?;
            println!("{run}\n{}", report::kernels(&kernels, count));
        }
    }

    let mut table = Table::read()?;
    let differences = table.differences(&steps);
    print!("{}", report::steps(&steps)?);
    if options.write {
        table.replace(steps);
        return table.write();
    }
    ensure!(
        differences.is_empty(),
        "the steps are not those of {}:\n{}\nIf this is meant, write them: `cargo xtask cuda dry --write{}`",
        super::table::PATH,
        differences.join("\n"),
        if options.choice.quick { " --quick" } else { "" },
    );
    Ok(())
}

/// Takes the steps of all runs.
fn take_all(runs: &[Run], built: Option<&Path>) -> Result<Vec<Step>> {
    let setting = Setting::prepare(built)?;
    let start = Instant::now();
    let steps = setting.take_all(runs);
    setting.clear()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} runs in {seconds:.0} s\n", runs.len());
    steps
}

/// The folder of logs and sources.
pub fn folder() -> Result<PathBuf> {
    Ok(stand_in::work()?.join("dry"))
}

/// Counts the step that a run logged.
fn count(run: &Run) -> Result<Step> {
    Step::count(run.clone(), &logged(run)?, source)
}

/// The marked steps that a run logged.
fn logged(run: &Run) -> Result<Vec<Vec<log::Event>>> {
    let log = folder()?.join(format!("{}.log", run.file_name()));
    let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    log::steps(&text)
}

/// The source of a kernel that some run launched.
fn source(hash: &str) -> Result<String> {
    let path = folder()?.join("sources").join(format!("{hash}.cu"));
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// What all runs share.
pub struct Setting {
    program: PathBuf,
    stand_in: StandIn,
    /// The folder that the programs run in, with CubeCL's configuration.
    folder: PathBuf,
}

impl Setting {
    /// Builds the stand-in, and copies the program that was `built` before or is built now.
    pub fn prepare(built: Option<&Path>) -> Result<Self> {
        let stand_in = StandIn::build()?;
        let folder = folder()?;
        fs::create_dir_all(folder.join("sources"))?;
        // A copy: a build that goes on meanwhile does not change it, nor does another run.
        let program = folder.join(format!("program-{}", process::id()));
        let built = match built {
            Some(built) => built.to_owned(),
            None => build()?,
        };
        fs::copy(&built, &program).with_context(|| built.display().to_string())?;
        Ok(Self {
            program,
            stand_in,
            folder,
        })
    }

    /// Takes the steps of all runs, some at a time; returns them in the order of the runs.
    fn take_all(&self, runs: &[Run]) -> Result<Vec<Step>> {
        let queue: Mutex<VecDeque<(usize, &Run)>> = Mutex::new(runs.iter().enumerate().collect());
        let taken = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    while let Some((index, run)) = next(&queue) {
                        let start = Instant::now();
                        let step = self.take(run).with_context(|| run.to_string());
                        let seconds = start.elapsed().as_secs_f64();
                        println!("{seconds:5.0} s  {run}");
                        let mut taken = taken.lock().unwrap_or_else(|error| error.into_inner());
                        taken.push((index, step));
                    }
                });
            }
        });
        let mut taken = taken
            .into_inner()
            .unwrap_or_else(|error| error.into_inner());
        taken.sort_by_key(|(index, _)| *index);
        taken.into_iter().map(|(_, step)| step).collect()
    }

    fn take(&self, run: &Run) -> Result<Step> {
        self.take_with(run, stand_in::succeed)?;
        count(run)
    }

    /// Makes the program of a run, and a folder for it, and has it executed.
    pub fn take_with(
        &self,
        run: &Run,
        execute: impl FnOnce(&mut Command) -> Result<()>,
    ) -> Result<()> {
        let sources = self.folder.join("sources");
        let log = self.folder.join(format!("{}.log", run.file_name()));
        let folder = self.folder.join(run.file_name());
        configure(&folder)?;
        let mut command = Command::new(&self.program);
        command.current_dir(&folder).args(run.arguments());
        self.stand_in.put_under(&mut command, &sources, &log);
        execute(&mut command)?;
        Ok(fs::remove_dir_all(&folder)?)
    }

    /// Removes the copy of the program.
    pub fn clear(self) -> Result<()> {
        Ok(fs::remove_file(self.program)?)
    }
}

fn next<'a>(queue: &Mutex<VecDeque<(usize, &'a Run)>>) -> Option<(usize, &'a Run)> {
    let mut queue = queue.lock().unwrap_or_else(|error| error.into_inner());
    queue.pop_front()
}

/// Makes a folder in which CubeCL finds its configuration: the fewest candidates are tuned, and nothing is found that
/// was tuned before.
fn configure(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let cache = folder.join("cache");
    // What CubeCL 0.11 understands besides: it would take samples until their times differ, which they never do.
    let samples = "[autotune.bench]\nadaptive = false\nmax_samples = 1\n";
    let text =
        format!("[autotune]\nlevel = \"minimal\"\ncache = {{ file = {cache:?} }}\n\n{samples}");
    fs::write(folder.join("cubecl.toml"), text)?;
    Ok(())
}

/// Builds the program `dry` of examples/lab.
pub fn build() -> Result<PathBuf> {
    workspace::executable(&mut build_command(&[]), "dry")
}

/// The command that builds it, with further arguments.
pub fn build_command(further: &[&str]) -> Command {
    let mut cargo = workspace::cargo(&["build", "--package", "lab", "--bin", "dry"]);
    cargo.args(["--features", "cuda"]).args(further);
    println!("{}", workspace::line(&cargo));
    cargo
}
