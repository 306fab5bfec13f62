//! Finds the folder, the packages and the dependencies of the workspace, and runs commands in it.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, Metadata, MetadataCommand, Package};

/// The root folder of the workspace.
pub fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let mut root = PathBuf::from(xtask);
    root.pop();
    root
}

/// A cargo command in the root of the workspace; uses the cargo that runs this program.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_path());
    command.args(args).current_dir(root());
    // `cargo run` sets these for this package. Some build scripts watch them, and would run again whenever
    // `cargo test` follows `cargo xtask test`.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"]
            .iter()
            .any(|own| text.starts_with(own))
        {
            command.env_remove(name);
        }
    }
    command
}

/// A command of another program in the root of the workspace.
pub fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs a command with inherited output; an exit status other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("{} does not start", line(command)))?;
    ensure!(status.success(), "{}: {status}", line(command));
    Ok(())
}

/// Returns what a command writes to its standard output; an exit status other than 0 is an error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} does not start", line(command)))?;
    let status = output.status;
    ensure!(status.success(), "{}: {status}", line(command));
    Ok(String::from_utf8(output.stdout)?)
}

/// The files whose path matches the pattern and that git tracks or does not ignore, relative to the root.
///
/// # Errors
///
/// Returns an error if there are none.
pub fn files(pattern: &str) -> Result<Vec<String>> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let mut git = command("git", &args);
    let list = output(git.args(["--deduplicate", "--", pattern]))?;
    let root = root();
    // Git lists a removed file until the removal is committed.
    let files = list.lines().filter(|file| root.join(file).exists());
    let mut files: Vec<_> = files.map(str::to_owned).collect();
    ensure!(!files.is_empty(), "git lists no {pattern}");
    files.sort_unstable();
    Ok(files)
}

/// Runs a cargo command that builds one program or test, and returns the path of its executable.
pub fn executable(cargo: &mut Command, name: &str) -> Result<PathBuf> {
    cargo.arg("--message-format=json-render-diagnostics");
    let messages = output(cargo)?;
    let built = Message::parse_stream(messages.as_bytes()).find_map(|message| match message {
        Ok(Message::CompilerArtifact(artifact)) => artifact.executable,
        _ => None,
    });
    let built = built.with_context(|| format!("cargo built no `{name}`"))?;
    Ok(built.into_std_path_buf())
}

/// Whether a command starts and exits with status 0; discards its output.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The command as a user would type it, without the program's folder and without variables.
pub fn line(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    [name]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Finds a package by name among the locked dependencies of the workspace.
///
/// Uses the network only if cargo's local registry does not have the sources.
pub fn dependency(name: &str) -> Result<Package> {
    let metadata = metadata(&["--locked", "--offline"]).or_else(|_| metadata(&["--locked"]))?;
    let mut found = metadata
        .packages
        .into_iter()
        .filter(|package| package.name == name);
    match (found.next(), found.next()) {
        (Some(package), None) => Ok(package),
        (None, _) => bail!("`{name}` is not among the dependencies of the workspace"),
        (Some(one), Some(other)) => bail!(
            "the workspace has two versions of `{name}`, {} and {}; keep one",
            one.version,
            other.version
        ),
    }
}

/// The packages of the workspace.
pub fn members() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .cargo_path(cargo_path())
        .current_dir(root())
        .no_deps()
        .exec()
        .context("cargo metadata --no-deps")?;
    Ok(metadata.packages)
}

/// The names of the packages that nothing forbids to publish.
pub fn published() -> Result<Vec<String>> {
    let packages = members()?.into_iter().filter(is_published);
    Ok(packages.map(|package| package.name.to_string()).collect())
}

/// Whether nothing forbids to publish a package.
pub fn is_published(package: &Package) -> bool {
    package
        .publish
        .as_ref()
        .is_none_or(|registries| !registries.is_empty())
}

fn metadata(options: &[&str]) -> Result<Metadata> {
    // Without the filter, cargo needs the sources of the dependencies of every platform.
    let filter = format!("--filter-platform={}", host()?);
    let mut options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
    options.push(filter);
    MetadataCommand::new()
        .cargo_path(cargo_path())
        .current_dir(root())
        .other_options(options)
        .exec()
        .context("cargo metadata")
}

/// The host's target triple, as rustc names it.
fn host() -> Result<String> {
    let output = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .arg("-vV")
        .output()
        .context("rustc -vV")?;
    String::from_utf8(output.stdout)?
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc -vV names no host")
}

fn cargo_path() -> PathBuf {
    env::var_os("CARGO").unwrap_or("cargo".into()).into()
}
