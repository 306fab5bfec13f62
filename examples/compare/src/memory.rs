//! The most memory that tensors hold at one moment.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
};

use bench_machine::{BytesInUse, memory::peak_during};

/// What is asked for the bytes.
pub enum Meter {
    /// The heap of this process: Flex has its tensors there, and an allocator that counts knows the peak exactly.
    Heap,
    /// A device that tells what is in use, and not what was at most: a second thread asks again and again.
    #[cfg_attr(
        not(any(feature = "vulkan", feature = "cuda")),
        allow(dead_code, reason = "made on a device only")
    )]
    Device(BytesInUse),
}

impl Meter {
    /// Bytes at this moment.
    pub fn in_use(&self) -> Option<u64> {
        match self {
            Self::Heap => Some(IN_USE.load(SeqCst) as u64),
            Self::Device(bytes_in_use) => bytes_in_use(),
        }
    }

    /// The most bytes in use while `work` runs, and what `work` returns.
    ///
    /// On a device this slows the work down, and a peak that lasts for a kernel or two can be missed.
    pub fn peak_during<T>(&self, work: impl FnOnce() -> T) -> (Option<u64>, T) {
        match self {
            Self::Heap => {
                PEAK.store(IN_USE.load(SeqCst), SeqCst);
                let output = work();
                (Some(PEAK.load(SeqCst) as u64), output)
            }
            Self::Device(bytes_in_use) => peak_during(bytes_in_use, work),
        }
    }
}

/// The system's allocator, with the bytes in use and their peak.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grow(bytes: usize) {
    PEAK.fetch_max(IN_USE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn shrink(bytes: usize) {
    IN_USE.fetch_sub(bytes, Relaxed);
}

// SAFETY: every call is handed to the system's allocator unchanged; counting does not touch the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        shrink(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicU64, mpsc};

    use super::*;

    #[test]
    fn the_heap_knows_a_peak_that_is_gone_at_the_end() {
        // Runs in other tests ask for peaks as well, but not while this work is caught; and what is allocated beside it
        // is less than this.
        const BYTES: usize = 1 << 30;
        let measured = bench_machine::panics::caught(|| {
            let before = Meter::Heap.in_use();
            let (peak, length) = Meter::Heap.peak_during(|| vec![0u8; BYTES].len());
            (before, peak, length, Meter::Heap.in_use())
        });
        let Ok((Some(before), Some(peak), BYTES, Some(after))) = measured else {
            panic!("{measured:?}");
        };
        assert!(peak >= before / 2 + BYTES as u64, "{before} {peak}");
        assert!(after < BYTES as u64, "{after}");
    }

    #[test]
    fn sampling_a_device_finds_a_peak_that_is_gone_at_the_end() {
        let held = Arc::new(AtomicU64::new(100));
        let (seen, sees) = mpsc::channel();
        let meter = Meter::Device(Box::new({
            let held = held.clone();
            move || {
                let bytes = held.load(SeqCst);
                seen.send(bytes).ok();
                Some(bytes)
            }
        }));
        let (peak, output) = meter.peak_during(|| {
            held.store(300, SeqCst);
            while sees.recv().unwrap() < 300 {}
            held.store(200, SeqCst);
            "done"
        });
        assert_eq!((peak, output), (Some(300), "done"));
        assert_eq!(meter.in_use(), Some(200));
    }

    #[test]
    fn a_panic_of_the_work_ends_the_sampling() {
        let meter = Meter::Device(Box::new(|| None));
        let work = || meter.peak_during(|| panic!("no memory left"));
        assert_eq!(
            bench_machine::panics::caught(work).unwrap_err(),
            "no memory left"
        );
    }
}
