//! `cargo xtask cuda compile`: compiles the kernels of the last dry runs with the true NVRTC, for each architecture.
//!
//! It takes what the marked steps launched, not what tuning tried, and of burn-amp's own kernels all that were made. A
//! kernel that does not compile is a failure, and so is one of ours that spills registers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{class, dry, plan, stand_in, toolkit::Toolkit};
use crate::workspace;

/// The architectures: Ampere, and Hopper with its own instructions, as CubeCL asks for them.
const ARCHITECTURES: &[&str] = &["sm_80", "sm_90a"];

/// Compilers at a time.
const AT_A_TIME: usize = 2;

/// The options of `cargo xtask cuda compile`.
#[derive(Args, Default)]
pub struct Options {
    /// Only the kernels of tiny models, as in `cargo xtask test --rest`; else those of full ones
    #[arg(long)]
    pub quick: bool,
    /// Only burn-amp's own kernels
    #[arg(long)]
    pub ours: bool,
}

/// What NVRTC and ptxas said about a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Compiled {
    entry: String,
    failure: Option<String>,
    milliseconds: u64,
    registers: u64,
    spilled_bytes: u64,
}

/// Runs the command.
///
/// # Errors
///
/// Returns an error if there is no compiler, if a kernel fails, or if one of burn-amp's spills.
pub fn run(options: &Options) -> Result<()> {
    let toolkit = Toolkit::get()?;
    let kernels = kernels(options)?;
    let program = build()?;
    let mut wrong = Vec::new();
    for architecture in ARCHITECTURES {
        // Descriptors of tensors come with Hopper; CubeCL makes no such kernel for the others.
        let fits = |source: &String| *architecture != "sm_80" || !source.contains("CUtensorMap");
        let files: Vec<&PathBuf> = kernels
            .iter()
            .filter(|(source, _)| fits(source))
            .map(|(_, path)| path)
            .collect();
        let compiled = compile(&program, &toolkit, architecture, &files)?;
        print!("{}", summary(architecture, &compiled));
        for kernel in compiled {
            if let Some(failure) = kernel.failure {
                wrong.push(format!("{architecture}: {}: {failure}", kernel.entry));
            } else if class::is_ours(&kernel.entry) && kernel.spilled_bytes > 0 {
                let bytes = kernel.spilled_bytes;
                wrong.push(format!(
                    "{architecture}: {}: spills {bytes} bytes",
                    kernel.entry
                ));
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} kernels:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    Ok(())
}

/// The kernels to compile: normalized sources, of which each is compiled once, and a file of each.
fn kernels(options: &Options) -> Result<BTreeMap<String, PathBuf>> {
    let folder = dry::folder()?;
    let mut launched = BTreeSet::new();
    let mut logs = 0;
    for run in plan::runs(options.quick) {
        let path = folder.join(format!("{}.log", run.file_name()));
        if !path.exists() {
            continue;
        }
        logs += 1;
        let log = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let launches = log.lines().filter_map(|line| line.strip_prefix("launch "));
        launched.extend(launches.filter_map(hash_and_entry));
    }
    let quick = if options.quick { " --quick" } else { "" };
    ensure!(logs > 0, "no dry run yet: `cargo xtask cuda dry{quick}`");
    let mut kernels = BTreeMap::new();
    for (hash, entry) in launched {
        if options.ours && !class::is_ours(&entry) {
            continue;
        }
        let path = folder.join("sources").join(format!("{hash}.cu"));
        let source = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        kernels.insert(normalized(&source), path);
    }
    println!("{} kernels of {logs} dry runs", kernels.len());
    Ok(kernels)
}

fn hash_and_entry(launch: &str) -> Option<(String, String)> {
    let mut words = launch.split(' ');
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

/// The source without what differs from process to process: types are declared in any order, and temporary variables are
/// numbered by a counter of the process.
fn normalized(source: &str) -> String {
    let (types, body) = match source.find("extern \"C\"") {
        Some(at) => source.split_at(at),
        None => ("", source),
    };
    let mut lines: Vec<&str> = types.lines().collect();
    lines.sort_unstable();
    let mut text = lines.join("\n");
    let mut parts = body.split("_tmp_");
    text.push_str(parts.next().unwrap_or_default());
    let mut numbers = Vec::new();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let index = numbers.iter().position(|known| *known == number);
        let index = index.unwrap_or_else(|| {
            numbers.push(number);
            numbers.len() - 1
        });
        text.push_str(&format!("_tmp_{index}{rest}"));
    }
    text
}

/// Builds the program of xtask/cuda/compile.c.
fn build() -> Result<PathBuf> {
    let program = stand_in::work()?.join("compile");
    let mut cc = stand_in::compiler();
    cc.arg("-o").arg(&program);
    cc.arg(stand_in::sources_folder().join("compile.c"))
        .arg("-ldl");
    workspace::run(&mut cc)?;
    Ok(program)
}

fn compile(
    program: &Path,
    toolkit: &Toolkit,
    architecture: &str,
    files: &[&PathBuf],
) -> Result<Vec<Compiled>> {
    let share = files.len().div_ceil(AT_A_TIME).max(1);
    let outputs: Vec<Result<String>> = thread::scope(|scope| {
        let processes: Vec<_> = files
            .chunks(share)
            .map(|files| {
                let mut command = Command::new(program);
                command.arg(toolkit.library()).arg(architecture);
                command.args(toolkit.includes()).arg("--").args(files);
                command.stdin(Stdio::null());
                scope.spawn(move || workspace::output(&mut command))
            })
            .collect();
        let outputs = processes.into_iter();
        outputs
            .map(|process| {
                process
                    .join()
                    .unwrap_or_else(|_| anyhow::bail!("a thread panicked"))
            })
            .collect()
    });
    let mut compiled = Vec::new();
    for output in outputs {
        compiled.extend(parse(&output?)?);
    }
    Ok(compiled)
}

/// Reads the output of the program.
fn parse(output: &str) -> Result<Vec<Compiled>> {
    let mut kernels: Vec<Compiled> = Vec::new();
    for line in output.lines() {
        if !line.starts_with(' ') {
            let words: Vec<&str> = line.split(' ').collect();
            let [path, result, milliseconds] = words.as_slice() else {
                anyhow::bail!("expected a source, a result and milliseconds: {line}");
            };
            kernels.push(Compiled {
                entry: (*path).to_owned(), // until ptxas names it
                failure: (*result != "0").then(|| format!("NVRTC's error {result}")),
                milliseconds: milliseconds.parse()?,
                ..Compiled::default()
            });
            continue;
        }
        let kernel = kernels.last_mut().context("a log before its source")?;
        if let Some(failure) = &mut kernel.failure {
            if line.contains("error") {
                failure.push_str(line);
            }
        } else if let Some((_, entry)) = line.split_once("Compiling entry function '") {
            kernel.entry = entry.split('\'').next().unwrap_or_default().to_owned();
        } else if let Some(bytes) = number_before(line, " bytes spill stores") {
            kernel.spilled_bytes = bytes;
        } else if let Some(registers) = number_before(line, " registers") {
            kernel.registers = registers;
        }
    }
    Ok(kernels)
}

fn number_before(line: &str, words: &str) -> Option<u64> {
    let before = &line[..line.find(words)?];
    before.rsplit([' ', ',']).next()?.parse().ok()
}

/// Kernels by name: how many, the most registers, the most bytes spilled.
fn summary(architecture: &str, compiled: &[Compiled]) -> String {
    let seconds: u64 = compiled
        .iter()
        .map(|kernel| kernel.milliseconds)
        .sum::<u64>()
        / 1000;
    let failed = compiled
        .iter()
        .filter(|kernel| kernel.failure.is_some())
        .count();
    let mut text = format!(
        "\n{architecture}: {} kernels, {failed} failures, {seconds} s of compiling\n",
        compiled.len()
    );
    let mut rows: BTreeMap<(bool, &str), (u64, u64, u64)> = BTreeMap::new();
    for kernel in compiled.iter().filter(|kernel| kernel.failure.is_none()) {
        let is_ours = class::is_ours(&kernel.entry);
        let name = kernel.entry.split("_kernel").next().unwrap_or_default();
        let name = if is_ours {
            name
        } else {
            class::of(&kernel.entry)
        };
        let row = rows.entry((!is_ours, name)).or_default();
        row.0 += 1;
        row.1 = row.1.max(kernel.registers);
        row.2 = row.2.max(kernel.spilled_bytes);
    }
    text += "  ours  kernels                          count  registers  spilled bytes\n";
    for ((is_others, name), (count, registers, spilled)) in rows {
        let ours = if is_others { "" } else { "ours" };
        text += &format!("  {ours:4}  {name:32} {count:5}  {registers:9}  {spilled:13}\n");
    }
    text
}

#[cfg(test)]
mod tests;
