//! The marks between which the driver logs, or a profiler records, a step.

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

fn accepted(result: CUresult) -> Result<()> {
    result
        .result()
        .context("the driver does not mark a step for profilers")
}
