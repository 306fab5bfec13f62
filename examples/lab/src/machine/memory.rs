//! The most memory that tensors hold at one moment.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::BytesInUse;

/// The most `bytes_in_use` while `work` runs, and what `work` returns.
///
/// CubeCL tells what is in use, not what was at most, so a second thread asks again and again, in between the kernels
/// that are launched. It slows the work down: nothing in it must be timed. A peak that lasts for a kernel or two can be
/// missed.
pub fn peak_during<T>(bytes_in_use: &BytesInUse, work: impl FnOnce() -> T) -> (Option<u64>, T) {
    /// Ends the sampling also when the work panics; the scope would wait for it forever.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peak = bytes_in_use();
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.max(bytes_in_use());
                thread::yield_now();
            }
            peak
        });
        let stop = Stop(&stopped);
        let output = work();
        drop(stop);
        (sampler.join().ok().flatten(), output)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU64, mpsc};

    use super::*;

    #[test]
    fn finds_a_peak_that_is_gone_at_the_end() {
        let held = Arc::new(AtomicU64::new(100));
        let (seen, sees) = mpsc::channel();
        let bytes_in_use: BytesInUse = Box::new({
            let held = held.clone();
            move || {
                let bytes = held.load(Ordering::SeqCst);
                seen.send(bytes).ok();
                Some(bytes)
            }
        });
        let (peak, output) = peak_during(&bytes_in_use, || {
            held.store(300, Ordering::SeqCst);
            while sees.recv().unwrap() < 300 {}
            held.store(200, Ordering::SeqCst);
            "done"
        });
        assert_eq!((peak, output), (Some(300), "done"));
    }

    #[test]
    fn a_panic_of_the_work_ends_the_sampling() {
        let bytes_in_use: BytesInUse = Box::new(|| None);
        let work = || peak_during(&bytes_in_use, || panic!("no memory left"));
        assert_eq!(crate::panics::caught(work).unwrap_err(), "no memory left");
    }
}
