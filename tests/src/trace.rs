//! A backend that records which op ran on which float dtypes.

use std::cell::RefCell;

use crate::prelude::*;
use instrumented::{Instrument, Instrumented, Value};

thread_local! {
    static CALLS: RefCell<Vec<(Op, Vec<DType>)>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` and returns the casts, and the calls of ops with a class, that it made on a `Trace` backend on this thread.
pub fn calls(f: impl FnOnce()) -> Vec<(Op, Vec<DType>)> {
    CALLS.take();
    f();
    CALLS.take()
}

/// Records casts and every call of an op with a class, and lets `B` compute them.
pub type Trace<B> = Instrumented<B, Calls>;

/// The instrument of [`Trace`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls;

impl<B: AmpBackend> Instrument<B> for Calls {
    type Seen = ();

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, B>>) {
        if op != Op::float_cast && op.class(Precision::F16).is_none() {
            return;
        }
        let dtypes = operands.filter_map(|operand| match operand {
            Value::Float(x) => Some(x.dtype()),
            Value::Dtype(dtype) => Some(dtype.into()),
            Value::Int(_) | Value::Bool(_) => None,
        });
        CALLS.with_borrow_mut(|calls| calls.push((op, dtypes.collect())));
    }

    fn after<'a>(_seen: (), _results: impl Iterator<Item = Value<'a, B>>) {}
}
