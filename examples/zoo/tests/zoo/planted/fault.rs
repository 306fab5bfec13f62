//! Below `Amp`: makes results of the plain backend wrong.

use std::cell::{Cell, RefCell};

use burn_amp_core::Op;
use burn_amp_kernels::{AmpBackend, Kernel, finite::NotFinite, kernel::TensorsOf};
use burn_backend::{Backend, DType, TensorData, TensorMetadata, read_sync, tensor::FloatTensor};
use instrumented::{Instrument, Instrumented, Value};

use super::{is_planted, line::line_of_zoo};

/// Which calls fail.
#[derive(Debug)]
pub enum Fails {
    /// The next one with a float operand: its result is inf.
    Next,
    /// The first one that reads a tensor with these values, a gradient: its result is inf.
    Reader(TensorData),
    /// All calls of an op in F16: their results are too large by a quarter.
    InF16(Op),
}

thread_local! {
    static FAILS: RefCell<Option<Fails>> = const { RefCell::new(None) };

    /// The line of the first call that failed.
    static FIRST: Cell<Option<(String, u32)>> = const { Cell::new(None) };
}

/// Has calls fail.
pub fn set(fails: Fails) {
    FAILS.set(Some(fails));
    FIRST.set(None);
}

/// Has no call fail any more; returns whether some still were to.
pub fn clear() -> bool {
    FAILS.take().is_some()
}

/// The line of the zoo at which the first call failed.
pub fn first_line() -> Option<(String, u32)> {
    FIRST.take()
}

/// The values of a tensor.
pub fn values<B: Backend>(tensor: FloatTensor<B>) -> TensorData {
    read_sync(B::float_into_data(tensor)).expect("the device delivers values")
}

/// Multiplies the results of calls that fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fault;

impl<B: AmpBackend> Instrument<B> for Fault {
    /// The factor of the result, if the call fails.
    type Seen = Option<f32>;

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, B>>) -> Option<f32> {
        if !is_planted(op) {
            return None;
        }
        let mut operands = operands.filter_map(Value::float);
        let factor = FAILS.with_borrow(|fails| match fails.as_ref()? {
            Fails::Next => operands.next().map(|_| f32::INFINITY),
            Fails::Reader(data) => {
                let is_reader = operands.any(|x| {
                    let is_like_it = x.dtype() == data.dtype && x.shape() == data.shape;
                    is_like_it && values::<B>(x.clone()) == *data
                });
                is_reader.then_some(f32::INFINITY)
            }
            Fails::InF16(bad) => {
                let fails = op == *bad && operands.any(|x| x.dtype() == DType::F16);
                fails.then_some(1.25)
            }
        })?;
        if factor.is_infinite() {
            clear();
        }
        let first = FIRST.take().or_else(line_of_zoo);
        FIRST.set(first);
        Some(factor)
    }

    fn after<'a>(factor: Option<f32>, results: impl Iterator<Item = Value<'a, B>>) {
        if let Some(factor) = factor {
            for result in results.filter_map(Value::float) {
                *result = B::float_mul_scalar(result.clone(), factor.into());
            }
        }
    }

    /// The finite check does not fail: it is how an overflow is looked for.
    fn run<K: Kernel>(
        kernel: K,
        operands: TensorsOf<Instrumented<B, Self>>,
    ) -> TensorsOf<Instrumented<B, Self>> {
        if K::NAME == NotFinite::NAME {
            B::run(kernel, operands)
        } else {
            kernel.reference::<Instrumented<B, Self>>(operands)
        }
    }
}
