//! Adds up the calls that a report tells.

use std::collections::HashMap;

use burn_amp_core::{
    Op, Precision,
    report::{Calls, Casting, Sample, Site, Why},
};
use parking_lot::Mutex;

use crate::{
    cast::watchers::{Tensor, WatchedCall, Watcher},
    diagnose::{
        keeping::{Alike, Keeping, Tally},
        work,
    },
    site,
};

/// Adds up the calls that it sees.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) calls: Mutex<HashMap<Like, Calls>>,
    pub(super) keeping: Mutex<Keeping>,
    pub(super) gradients: Mutex<Tally>,
}

/// What calls have in common that are added up.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Like {
    op: &'static str,
    site: Option<Site>,
    operands: Vec<Precision>,
    computed_in: Precision,
    result: Option<Precision>,
    why: Why,
}

impl Watcher for Recorder {
    fn call(&self, call: &WatchedCall) {
        // Ops on integers, and those that make tensors, have no float operands.
        if call.computed_in.is_none() && call.made.is_empty() {
            return;
        }
        let op = call.op.map_or("custom", |op| op.name());
        let site = site::here();
        self.keeping.lock().made(op, &site, &call.made);
        let Some(computed_in) = call.computed_in else {
            return;
        };
        let like = Like {
            op,
            site,
            operands: call.operands.iter().map(|x| x.dtype).collect(),
            computed_in,
            result: call.result.as_ref().map(|result| result.dtype),
            why: call.why.clone(),
        };
        let mut calls = self.calls.lock();
        let calls = calls.entry(like).or_insert_with_key(|like| Calls {
            site: like.site.clone(),
            result: like.result,
            ..Calls::new(
                like.op,
                like.operands.clone(),
                like.computed_in,
                like.why.clone(),
            )
        });
        add(calls, call);
    }

    fn backward_begins(&self) {
        self.keeping.lock().count();
    }

    fn gradient(&self, op: Option<Op>, site: &Option<Site>, gradient: &Tensor) {
        let alike = Alike {
            op: op.map_or("custom", |op| op.name()),
            site: site.clone(),
            dtype: gradient.dtype.name(),
            shape: gradient.shape.clone(),
        };
        let elements: usize = gradient.shape.iter().product();
        let bytes = elements * gradient.dtype.size();
        self.gradients.lock().add(alike, bytes);
    }
}

/// Adds a call to those like it.
fn add(calls: &mut Calls, call: &WatchedCall) {
    let shapes: Vec<_> = call.operands.iter().map(|x| x.shape.as_slice()).collect();
    let size = |shape: &[usize]| shape.iter().product::<usize>();
    let largest = |shapes: &[Vec<usize>]| shapes.iter().map(|shape| size(shape)).max();
    if largest(&calls.shapes) < shapes.iter().map(|shape| size(shape)).max() {
        calls.shapes = shapes.iter().map(|shape| shape.to_vec()).collect();
    }
    calls.count += 1;
    calls.reads_rounded |= call.reads_rounded;
    calls.casts_expanded |= call.casts.iter().any(|cast| cast.expanded && !cast.shared);
    if !call.waits {
        let tensors = call.operands.iter().chain(&call.result);
        calls.bytes += tensors
            .map(|tensor| (size(&tensor.shape) * tensor.dtype.size()) as u64)
            .sum::<u64>();
    }
    if let (Some(op), Some(result)) = (call.op, &call.result) {
        calls.flops += work::flops(op, &shapes, &result.shape);
    }
    for cast in &call.casts {
        let (from, to) = (cast.from, cast.to);
        let at = calls
            .casts
            .iter()
            .position(|other| (other.from, other.to) == (from, to));
        let at = at.unwrap_or_else(|| {
            calls.casts.push(Casting {
                from,
                to,
                made: 0,
                shared: 0,
                bytes: 0,
                sample: Sample::default(),
            });
            calls.casts.len() - 1
        });
        let total = &mut calls.casts[at];
        total.sample += cast.sample;
        if cast.shared {
            total.shared += 1;
        } else {
            total.made += 1;
            total.bytes += (cast.elements * (from.size() + to.size())) as u64;
        }
    }
}
