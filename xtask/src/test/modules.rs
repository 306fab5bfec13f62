//! Runs the modules of test binaries in processes of their own, as many at a time as there are cores.
//!
//! Tests of one process run one after the other (`RUST_TEST_THREADS` in `.cargo/config.toml`), because they share random
//! numbers and observers. Processes share neither.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;

use crate::workspace;

/// A test binary.
pub struct Binary {
    /// The name of its target.
    pub name: String,
    pub path: PathBuf,
    /// The folder of its package, in which cargo would run it.
    pub folder: PathBuf,
}

impl Binary {
    /// The command that runs it as cargo does.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", "1");
        command
    }
}

/// The tests of one module of a binary.
struct Module<'a> {
    binary: &'a Binary,
    name: String,
    tests: Vec<String>,
}

/// Builds the test binaries that a `cargo test` command would run.
///
/// # Errors
///
/// Returns an error if the tests do not compile.
pub fn build(cargo_test: &mut Command) -> Result<Vec<Binary>> {
    cargo_test.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let messages = workspace::output(cargo_test)?;
    let mut binaries = Vec::new();
    for message in Message::parse_stream(messages.as_bytes()) {
        let Message::CompilerArtifact(artifact) = message? else {
            continue;
        };
        if let (true, Some(path)) = (artifact.profile.test, artifact.executable) {
            let folder = artifact.manifest_path.parent();
            binaries.push(Binary {
                name: artifact.target.name,
                path: path.into(),
                folder: folder.context("a manifest is in a folder")?.into(),
            });
        }
    }
    Ok(binaries)
}

/// Runs the tests that `chooses` names, each module in a process that `command` makes, and prints what failed.
///
/// # Errors
///
/// Returns an error if no test is chosen, one fails, or a process does not start.
pub fn run(
    binaries: &[Binary],
    command: impl Fn(&Binary) -> Command + Sync,
    chooses: impl Fn(&str) -> bool,
) -> Result<()> {
    let start = Instant::now();
    let mut modules = Vec::new();
    for binary in binaries {
        let list = workspace::output(command(binary).args(["--list", "--format=terse"]))?;
        let chosen = names(&list).filter(|name| chooses(name));
        modules.extend(by_module(chosen).into_iter().map(|(name, tests)| Module {
            binary,
            name,
            tests,
        }));
    }
    let tests: usize = modules.iter().map(|module| module.tests.len()).sum();
    ensure!(tests > 0, "no test has such a name");
    // The tests of small modules tend to be long, and a long one that starts last is waited for.
    modules.sort_by_key(|module| module.tests.len());

    let (next, all_passed) = (AtomicUsize::new(0), AtomicBool::new(true));
    let printed = Mutex::new(());
    let work = || -> Result<()> {
        while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
            let start = Instant::now();
            let mut command = command(module.binary);
            let output = command.arg("--exact").args(&module.tests).output();
            let output = output.with_context(|| module.binary.path.display().to_string())?;
            let _one_at_a_time = printed.lock();
            print(module, &output, start);
            all_passed.fetch_and(output.status.success(), Ordering::Relaxed);
        }
        Ok(())
    };
    let cores = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let mut results = workers.into_iter().map(|worker| worker.join());
        results.try_for_each(|result| result.expect("a worker returns its errors"))
    })?;
    println!(
        "{tests} tests of {} modules in {:.0} s",
        modules.len(),
        start.elapsed().as_secs_f64()
    );
    ensure!(all_passed.into_inner(), "tests failed");
    Ok(())
}

fn print(module: &Module, output: &Output, start: Instant) {
    if !output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    println!(
        "{:7.1} s  {} {}: {}",
        start.elapsed().as_secs_f64(),
        module.binary.name,
        module.name,
        if output.status.success() {
            format!("{} passed", module.tests.len())
        } else {
            format!("FAILED, {}", output.status)
        }
    );
}

/// The names of tests in the output of `--list`.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

/// The tests of each module, by its path.
fn by_module<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, Vec<String>> {
    let mut modules: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for name in names {
        let module = name.rsplit_once("::").map_or("", |(module, _)| module);
        let tests = modules.entry(module.to_owned()).or_default();
        tests.push(name.to_owned());
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_grouped_by_module_and_none_is_lost() {
        let list = "a::one: test\na::two: test\nb::one: test\nalone: test\nc::d::one: test\n\n5 tests, 1 benchmark\n\
                    measure: benchmark\n";
        let modules: Vec<_> = by_module(names(list)).into_iter().collect();
        let expected = [
            ("", vec!["alone"]),
            ("a", vec!["a::one", "a::two"]),
            ("b", vec!["b::one"]),
            ("c::d", vec!["c::d::one"]),
        ];
        let owned = |(module, tests): (&str, Vec<&str>)| {
            let tests = tests.into_iter().map(str::to_owned).collect();
            (module.to_owned(), tests)
        };
        assert_eq!(modules, expected.map(owned));
    }
}
