//! Measures the peak of the memory that tensors hold.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use peak_alloc::PeakAlloc;

/// Asks a device how many bytes its tensors hold; `None` if it does not answer.
pub type BytesInUse = Box<dyn Fn() -> Option<u64> + Send + Sync>;

pub enum Meter {
    /// The heap of this process, where Flex has its tensors. It is known, and its peak exactly, if [`PeakAlloc`] is the program's
    /// allocator. Counting slows a host that launches on a device by a tenth, so only programs that need it count.
    Heap,
    /// A device that knows the bytes in use now, but not their peak.
    Device(BytesInUse),
}

impl Meter {
    /// Returns the bytes in use now.
    pub fn in_use(&self) -> Option<u64> {
        match self {
            Self::Heap => Some(PeakAlloc.current_usage() as u64).filter(|bytes| *bytes > 0),
            Self::Device(bytes_in_use) => bytes_in_use(),
        }
    }

    /// Runs `work`; returns the most bytes in use meanwhile, and its output.
    ///
    /// On a device a second thread samples repeatedly, between the kernels that are launched. That slows the work down,
    /// so do not time it, and a peak that lasts for only a kernel or two can be missed.
    pub fn peak_during<T>(&self, work: impl FnOnce() -> T) -> (Option<u64>, T) {
        match self {
            Self::Heap => {
                PeakAlloc.reset_peak_usage();
                let output = work();
                let peak = PeakAlloc.peak_usage() as u64;
                (Some(peak).filter(|bytes| *bytes > 0), output)
            }
            Self::Device(bytes_in_use) => sampled(bytes_in_use, work),
        }
    }
}

fn sampled<T>(bytes_in_use: &BytesInUse, work: impl FnOnce() -> T) -> (Option<u64>, T) {
    /// Ends the sampling even if the work panics; the scope would otherwise wait for it forever.
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
    use crate::panics;

    #[global_allocator]
    static HEAP: PeakAlloc = PeakAlloc;

    #[test]
    fn the_heap_knows_a_peak_that_is_gone_at_the_end() {
        const BYTES: usize = 1 << 30; // far more than other tests allocate meanwhile

        let (peak, length) = Meter::Heap.peak_during(|| vec![0u8; BYTES].len());
        assert_eq!(length, BYTES);
        assert!(peak.unwrap() >= BYTES as u64, "{peak:?}");
        assert!(Meter::Heap.in_use().unwrap() < BYTES as u64);
    }

    #[test]
    fn sampling_a_device_finds_a_peak_that_is_gone_at_the_end() {
        let held = Arc::new(AtomicU64::new(100));
        let (seen, sees) = mpsc::channel();
        let meter = Meter::Device(Box::new({
            let held = held.clone();
            move || {
                let bytes = held.load(Ordering::SeqCst);
                seen.send(bytes).ok();
                Some(bytes)
            }
        }));
        let (peak, output) = meter.peak_during(|| {
            held.store(300, Ordering::SeqCst);
            while sees.recv().unwrap() < 300 {}
            held.store(200, Ordering::SeqCst);
            "done"
        });
        assert_eq!((peak, output), (Some(300), "done"));
    }

    #[test]
    fn a_panic_of_the_work_ends_the_sampling() {
        let meter = Meter::Device(Box::new(|| None));
        let work = || meter.peak_during(|| panic!("no memory left"));
        assert_eq!(panics::caught(work).unwrap_err(), "no memory left");
    }
}
