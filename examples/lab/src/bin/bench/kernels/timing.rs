//! Measures the time of work on a device.

use std::time::{Duration, Instant};

use burn::tensor::backend::Backend;

/// Returns the seconds that `work` takes, the minimum of several rounds. The sync of the device is inside the timed
/// region.
pub fn seconds<B: Backend>(device: &B::Device, work: impl Fn()) -> f64 {
    /// Long enough that queueing a kernel and the sync do not matter.
    const ROUND: Duration = Duration::from_millis(20);
    const ROUNDS: usize = 5;
    const MOST: usize = 1000;

    let round = |repeats: usize| {
        let start = Instant::now();
        for _ in 0..repeats {
            work();
        }
        B::sync(device).expect("the device computes what it was asked for");
        start.elapsed()
    };
    // Kernels are compiled and tuned at their first launch.
    round(1);
    let once = round(1).as_secs_f64();
    let repeats = (ROUND.as_secs_f64() / once).ceil().clamp(1.0, MOST as f64) as usize;
    (0..ROUNDS)
        .map(|_| round(repeats).as_secs_f64() / repeats as f64)
        .fold(f64::INFINITY, f64::min)
}
