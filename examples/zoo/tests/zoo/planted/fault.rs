//! Below `Amp`: makes results of the plain backend wrong.

use std::cell::{Cell, RefCell};

use burn_amp_core::Op;
use burn_backend::{Backend, DType, TensorData, TensorMetadata, read_sync, tensor::FloatTensor};

use super::{hooked::Hook, line::line_of_zoo};

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

impl<B: Backend> Hook<B> for Fault {
    /// The factor of the result, if the call fails.
    type Seen = Option<f32>;

    fn before(op: Op, operands: Vec<FloatTensor<B>>) -> Option<f32> {
        let factor = FAILS.with_borrow(|fails| match fails {
            Some(Fails::Next) if !operands.is_empty() => Some(f32::INFINITY),
            Some(Fails::Reader(data)) => {
                let mut operands = operands.into_iter();
                let is_reader = operands.any(|x| {
                    x.dtype() == data.dtype && x.shape() == data.shape && values::<B>(x) == *data
                });
                is_reader.then_some(f32::INFINITY)
            }
            Some(Fails::InF16(bad)) => {
                let mut operands = operands.iter();
                let fails = op == *bad && operands.any(|x| x.dtype() == DType::F16);
                fails.then_some(1.25)
            }
            Some(Fails::Next) | None => None,
        })?;
        if factor.is_infinite() {
            clear();
        }
        let first = FIRST.take().or_else(line_of_zoo);
        FIRST.set(first);
        Some(factor)
    }

    fn after(factor: Option<f32>, result: FloatTensor<B>) -> FloatTensor<B> {
        match factor {
            Some(factor) => B::float_mul_scalar(result, factor.into()),
            None => result,
        }
    }
}
