//! What is added up over a report.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{Calls, Casting, Kept, Report, Sample};
use crate::Precision;

/// The sums over a report, in all its steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of calls.
    pub calls: u64,
    /// The number of casts that a kernel was launched for.
    pub casts: u64,
    /// The bytes that these casts read and wrote.
    pub cast_bytes: u64,
    /// The floating-point operations of matrix products, convolutions and attention.
    pub flops: u64,
    /// Those of them in half precision.
    pub low_flops: u64,
    /// What became of a sample of the values in casts to half precision.
    pub sample: Sample,
    /// The sums of each op, by its name.
    pub ops: BTreeMap<String, OpTotal>,
}

/// The sums of one op, in all steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpTotal {
    /// The number of calls by the dtype in which they computed.
    pub calls: BTreeMap<Precision, u64>,
    /// The number of casts that a kernel was launched for.
    pub casts: u64,
    /// The bytes that these casts read and wrote.
    pub cast_bytes: u64,
    /// The bytes of operands and results.
    pub bytes: u64,
    /// The floating-point operations.
    pub flops: u64,
}

impl OpTotal {
    /// The number of calls in any dtype.
    pub fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}

impl Report {
    /// The sums over the report.
    pub fn totals(&self) -> Totals {
        self.totals_of(|_| true)
    }

    /// The sums over some of the calls.
    pub fn totals_of(&self, are_counted: impl Fn(&Calls) -> bool) -> Totals {
        let mut totals = Totals::default();
        for calls in self.calls.iter().filter(|calls| are_counted(calls)) {
            let casts: u64 = calls.casts.iter().map(|cast| cast.made).sum();
            let cast_bytes: u64 = calls.casts.iter().map(|cast| cast.bytes).sum();
            totals.calls += calls.count;
            totals.casts += casts;
            totals.cast_bytes += cast_bytes;
            totals.flops += calls.flops;
            calls
                .casts
                .iter()
                .for_each(|cast| totals.sample += cast.sample);
            if calls.computed_in.is_low() {
                totals.low_flops += calls.flops;
            }
            let op = totals.ops.entry(calls.op.clone()).or_default();
            *op.calls.entry(calls.computed_in).or_default() += calls.count;
            op.casts += casts;
            op.cast_bytes += cast_bytes;
            op.bytes += calls.bytes;
            op.flops += calls.flops;
        }
        totals
    }

    /// The bytes that graphs kept for their backward passes, in all steps; `None` if the backend cannot tell.
    pub fn kept_bytes(&self) -> Option<u64> {
        let kept = self.kept.as_ref()?;
        Some(kept.iter().map(|kept| kept.bytes).sum())
    }

    /// The tensors of which graphs kept most bytes, at most `count` of them.
    pub fn largest_kept(&self, count: usize) -> Vec<&Kept> {
        largest(self.kept.iter().flatten(), |kept| kept.bytes, count)
    }

    /// The number and the bytes of the tensors that graphs kept, by the op that made them, the most bytes first.
    pub fn kept_by_op(&self) -> Vec<(&str, u64, u64)> {
        by_bytes(self.kept.iter().flatten(), |kept| &*kept.op)
    }

    /// The number and the bytes of the gradients of results, by op and dtype, the most bytes first.
    pub fn gradients_by_op(&self) -> Vec<((&str, &str), u64, u64)> {
        by_bytes(&self.gradients, |gradient| {
            (&*gradient.op, &*gradient.dtype)
        })
    }

    fn all_casts(&self) -> impl Iterator<Item = (&Calls, &Casting)> {
        let calls = self.calls.iter();
        calls.flat_map(|calls| calls.casts.iter().map(move |cast| (calls, cast)))
    }

    /// The casts that move most bytes, at most `count` of them.
    pub fn largest_casts(&self, count: usize) -> Vec<(&Calls, &Casting)> {
        let casts = self.all_casts().filter(|(_, cast)| cast.bytes > 0);
        largest(casts, |(_, cast)| cast.bytes, count)
    }

    /// The casts in which most of the sampled values were lost, at most `count` of them.
    pub fn most_lost(&self, count: usize) -> Vec<(&Calls, &Casting)> {
        let casts = self.all_casts().filter(|(_, cast)| cast.sample.lost() > 0);
        largest(casts, |(_, cast)| cast.sample.lost(), count)
    }

    /// The calls in F32 that move most bytes although the compute dtype is lower, at most `count` of them. Ops of an
    /// optimizer are left out: they belong in F32.
    pub fn largest_in_f32(&self, count: usize) -> Vec<&Calls> {
        if !self.compute.is_low() {
            return Vec::new();
        }
        let stays = |calls: &&Calls| {
            calls.computed_in == Precision::F32 && !calls.why.is_of_optimizer() && calls.bytes > 0
        };
        largest(self.calls.iter().filter(stays), |calls| calls.bytes, count)
    }

    /// The calls in half precision whose dimensions keep tensor cores idle, the ones with most work first, at most
    /// `count` of them.
    pub fn idle(&self, count: usize) -> Vec<&Calls> {
        let is_idle = |calls: &&Calls| !calls.idle_dimensions().is_empty();
        largest(
            self.calls.iter().filter(is_idle),
            |calls| calls.flops,
            count,
        )
    }
}

/// The number and the bytes of tensors by a key, the most bytes first.
fn by_bytes<'a, K: Ord>(
    tensors: impl IntoIterator<Item = &'a Kept>,
    key: impl Fn(&'a Kept) -> K,
) -> Vec<(K, u64, u64)> {
    let mut totals: BTreeMap<K, (u64, u64)> = BTreeMap::new();
    for kept in tensors {
        let (count, bytes) = totals.entry(key(kept)).or_default();
        *count += kept.count;
        *bytes += kept.bytes;
    }
    let totals = totals.into_iter();
    let mut totals: Vec<_> = totals
        .map(|(key, (count, bytes))| (key, count, bytes))
        .collect();
    totals.sort_by_key(|(_, _, bytes)| Reverse(*bytes));
    totals
}

/// At most `count` items, those with the largest sizes first.
fn largest<T>(items: impl Iterator<Item = T>, size: impl Fn(&T) -> u64, count: usize) -> Vec<T> {
    let mut items: Vec<_> = items.collect();
    items.sort_by_key(|item| Reverse(size(item)));
    items.truncate(count);
    items
}
