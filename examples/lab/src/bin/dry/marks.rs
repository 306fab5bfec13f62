//! The marks between which the driver logs, or a profiler records, steps.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use cudarc::driver::sys::{CUresult, cuProfilerStart, cuProfilerStop};

/// The number of marked steps. What the first one leaves in memory for later is what the second one reads.
const MARKED: usize = 2;

/// Takes the marked steps.
///
/// # Errors
///
/// Returns an error if a step fails, or the driver does not mark it.
pub fn take_marked(mut step: impl FnMut() -> Result<()>) -> Result<()> {
    for _ in 0..MARKED {
        // SAFETY: both have no preconditions; the driver is there, since it has computed.
        accepted(unsafe { cuProfilerStart() })?;
        step()?;
        accepted(unsafe { cuProfilerStop() })?;
    }
    Ok(())
}

/// Takes steps between two lines in the file from which a profiler of the host is controlled.
///
/// # Errors
///
/// Returns an error if the steps fail, or the file is not written.
pub fn take_profiled(control: &Path, steps: impl FnOnce() -> Result<()>) -> Result<()> {
    let write = |line: &str| {
        fs::write(control, line).with_context(|| format!("{} is not written", control.display()))
    };
    write("enable\n")?;
    steps()?;
    write("disable\n")
}

fn accepted(result: CUresult) -> Result<()> {
    result
        .result()
        .context("the driver does not mark a step for profilers")
}
