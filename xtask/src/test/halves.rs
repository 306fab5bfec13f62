//! Runs the tests of a package in two processes side by side.
//!
//! Tests of one process run one after the other (`RUST_TEST_THREADS` in `.cargo/config.toml`), so a process uses little
//! more than one core. Two processes share neither random numbers nor observers.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    process::{Command, Output},
    thread,
};

use anyhow::{Result, ensure};

use crate::workspace;

/// Builds and runs the tests that a `cargo test` command stands for.
///
/// # Errors
///
/// Returns an error if the tests do not compile, none is found, or one fails.
pub fn run(cargo_test: impl Fn() -> Command + Sync) -> Result<()> {
    workspace::run(cargo_test().arg("--no-run"))?;
    let list = workspace::output(cargo_test().args(["--quiet", "--", "--list", "--format=terse"]))?;
    let names = names(&list);
    ensure!(!names.is_empty(), "no test was found");
    let all_passed = side_by_side(&names, |names| {
        let mut command = cargo_test();
        command
            .args(["--no-fail-fast", "--", "--exact"])
            .args(names);
        command
    })?;
    ensure!(
        all_passed,
        "{}: tests failed",
        workspace::line(&cargo_test())
    );
    Ok(())
}

/// Runs tests in two processes, each the command that `half` makes for some names; whether all passed.
///
/// # Errors
///
/// Returns an error if a process does not start.
pub fn side_by_side(names: &[&str], half: impl Fn(&[&str]) -> Command + Sync) -> Result<bool> {
    let [first, second] = split(names);
    println!(
        "{} tests in one process, {} in another, whose output follows",
        first.len(),
        second.len()
    );
    let (first, second) = thread::scope(|scope| {
        let other = scope.spawn(|| (!second.is_empty()).then(|| half(&second).output()));
        let first = half(&first).status();
        (first, other.join().expect("a thread that only waits"))
    });
    let mut all_passed = first?.success();
    if let Some(second) = second {
        let Output {
            status,
            stdout,
            stderr,
        } = second?;
        print!("{}", String::from_utf8_lossy(&stdout));
        eprint!("{}", String::from_utf8_lossy(&stderr));
        all_passed &= status.success();
    }
    Ok(all_passed)
}

/// The names of tests in the output of `--list`.
pub fn names(list: &str) -> Vec<&str> {
    list.lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect()
}

/// Splits names into two halves of about as many tests.
///
/// Tests of one module stay together, because they tend to need the same kernels, which each process compiles.
fn split<'a>(names: &[&'a str]) -> [Vec<&'a str>; 2] {
    let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        let module = name.rsplit_once("::").map_or("", |(module, _)| module);
        let names = modules.entry(module).or_default();
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mut modules: Vec<_> = modules.into_values().collect();
    modules.sort_by_key(|names| Reverse(names.len()));
    let mut halves = [Vec::new(), Vec::new()];
    for names in modules {
        let lighter = usize::from(halves[1].len() < halves[0].len());
        halves[lighter].extend(names);
    }
    halves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_stays_in_one_half_and_no_test_is_lost() {
        let list = "a::one: test\na::two: test\nb::one: test\nalone: test\na::one: test\n\n4 tests, 1 benchmark\n\
                    c::d::one: test\nc::d::two: test\nc::d::three: test\nmeasure: benchmark\n";
        let [first, second] = split(&names(list));
        assert_eq!(first, ["c::d::one", "c::d::two", "c::d::three", "b::one"]);
        assert_eq!(second, ["a::one", "a::two", "alone"]);
    }

    #[test]
    fn one_module_needs_one_process() {
        let [first, second] = split(&names("one: test\ntwo: test\n"));
        assert_eq!((first.len(), second.len()), (2, 0));
    }
}
