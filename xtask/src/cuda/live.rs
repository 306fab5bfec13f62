//! The peak of what is alive: bytes that were written and that a later kernel reads.
//!
//! It is what no allocator can go below, and the same in every run; the bytes that CubeCL's pools hold depend on how far
//! the host is ahead of the device, and can only be sampled. A tensor that is kept but never read again is not in it.

use std::collections::BTreeMap;

use super::{kernel::Access, traffic::Span};

/// Parts of the address space that do not overlap, by their start.
#[derive(Default)]
struct Live {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Live {
    fn remove(&mut self, start: u64, end: u64) {
        let overlapping: Vec<(u64, u64)> = self
            .ends
            .range(..end)
            .rev()
            .take_while(|(_, part_end)| **part_end > start)
            .map(|(part, part_end)| (*part, *part_end))
            .collect();
        for (part, part_end) in overlapping {
            self.ends.remove(&part);
            self.bytes -= part_end - part;
            if part < start {
                self.put(part, start);
            }
            if part_end > end {
                self.put(end, part_end);
            }
        }
    }

    fn add(&mut self, start: u64, end: u64) {
        self.remove(start, end);
        self.put(start, end);
    }

    fn put(&mut self, start: u64, end: u64) {
        if end > start {
            self.ends.insert(start, end);
            self.bytes += end - start;
        }
    }
}

/// The most bytes that are alive at a launch of `step`, given the launches of the step after it.
pub fn peak(step: &[Vec<Span>], after: &[Vec<Span>]) -> u64 {
    let mut live = Live::default();
    let mut peak = 0;
    for (is_counted, launches) in [(false, after), (true, step)] {
        for spans in launches.iter().rev() {
            let of = |access: Access| spans.iter().filter(move |span| span.access == access);
            let range = |span: &Span| (span.start, span.start + span.bytes);
            // While the kernel runs, there is what it writes, what it reads and what is read later.
            for (start, end) in of(Access::Write).map(range) {
                live.add(start, end);
            }
            for (start, end) in of(Access::Read).chain(of(Access::ReadWrite)).map(range) {
                live.add(start, end);
            }
            if is_counted {
                peak = peak.max(live.bytes);
            }
            for (start, end) in of(Access::Write).map(range) {
                live.remove(start, end);
            }
            // An input that is also an output of the same launch, at the same place, was there before.
            for (start, end) in of(Access::Read).map(range) {
                live.add(start, end);
            }
        }
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, bytes: u64, access: Access) -> Span {
        Span {
            start,
            bytes,
            access,
        }
    }

    #[test]
    fn what_is_not_read_again_is_not_alive() {
        use Access::{Read, ReadWrite, Write};
        let step = [
            vec![span(0, 100, Read), span(1000, 50, Write)],
            vec![span(1000, 50, Read), span(2000, 10, Write)],
            vec![span(2000, 10, ReadWrite)],
        ];
        // The next step reads the first buffer again and what the last launch left.
        let after = [vec![span(0, 100, Read), span(2000, 10, Read)]];
        assert_eq!(peak(&step, &after), 160);
        // Without the next step the first buffer is dead after the first launch.
        assert_eq!(peak(&step, &[]), 150);
    }

    #[test]
    fn parts_of_a_buffer_are_alive_by_themselves() {
        use Access::{Read, Write};
        let step = [
            vec![span(0, 100, Write)],
            vec![span(0, 40, Write)],
            vec![span(20, 60, Read)],
        ];
        assert_eq!(peak(&step, &[]), 100);
        assert_eq!(peak(&step[1..], &[]), 80);
    }
}
