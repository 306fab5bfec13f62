//! Below `Amp`: a kernel that is wrong for one op at certain shapes.

use std::cell::RefCell;

use burn_amp_core::Op;
use burn_amp_kernels::{AmpBackend, kernel::Meta};
use burn_backend::{Backend, DType, TensorData, TensorMetadata, read_sync, tensor::FloatTensor};
use instrumented::{Instrument, Value};

/// A call as a kernel knows it: the op, with the shapes and dtypes of its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub op: Op,
    pub operands: Vec<Meta>,
}

/// What a wrong kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It writes each value one element further.
    WrongIndex,
    /// It takes the largest element of its last operand for zero. For sums and products.
    DroppedTerm,
    /// It rounds a result to six bits, or to four where the dtype has eight.
    OtherRounding,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::WrongIndex, Self::DroppedTerm, Self::OtherRounding];
}

/// What has happened so far.
#[derive(Default)]
pub struct Seen {
    /// The kernel that is wrong.
    bug: Option<(Key, Kind)>,
    /// The step or call that runs.
    at: usize,
    /// Whether all of the step has run.
    is_by_call: bool,
    /// The calls of the step as a whole, forward and backward, with the number of elements of their results.
    pub calls: Vec<(usize, Key, usize)>,
    /// The calls of the step in which the kernel computed something else, in the step as a whole and by themselves.
    pub hits: [Vec<usize>; 2],
}

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// Begins a comparison in which a kernel is wrong, or none.
pub fn set(bug: Option<(Key, Kind)>) {
    SEEN.set(Seen {
        bug,
        ..Seen::default()
    });
}

/// What a comparison tells of its progress.
pub fn begins(at: usize) {
    SEEN.with_borrow_mut(|seen| {
        seen.is_by_call |= at < seen.at;
        seen.at = at;
    });
}

/// Ends a comparison.
pub fn take() -> Seen {
    SEEN.take()
}

/// The instrument of the backend with the wrong kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wrong;

impl<B: AmpBackend> Instrument<B> for Wrong {
    /// The call, and what the kernel does if it is the wrong one.
    type Seen = Option<(Key, Option<Kind>)>;

    fn before<'a>(op: Op, operands: impl Iterator<Item = Value<'a, B>>) -> Self::Seen {
        if !op.shape().ends_with("-> F") {
            return None;
        }
        let operands: Vec<_> = operands.collect();
        let key = Key {
            op,
            operands: operands.iter().filter_map(Value::meta).collect(),
        };
        let last = operands.into_iter().filter_map(Value::float).last()?;
        let bug = SEEN.with_borrow(|seen| seen.bug.clone());
        let kind = bug.filter(|(bug, _)| *bug == key).map(|(_, kind)| kind);
        if kind == Some(Kind::DroppedTerm) {
            change::<B>(last, |values| {
                let largest = values.iter_mut().max_by(|x, y| x.abs().total_cmp(&y.abs()));
                if let Some(x) = largest {
                    *x = 0.0;
                }
            });
        }
        Some((key, kind))
    }

    fn after<'a>(seen: Self::Seen, results: impl Iterator<Item = Value<'a, B>>) {
        let (Some((key, kind)), Some(result)) = (seen, results.filter_map(Value::float).next())
        else {
            return;
        };
        match kind {
            Some(Kind::WrongIndex) => change::<B>(result, |values| values.rotate_right(1)),
            Some(Kind::OtherRounding) => {
                let dtype = result.dtype();
                change::<B>(result, |values| {
                    values.iter_mut().for_each(|x| *x = rounded(*x, dtype));
                });
            }
            Some(Kind::DroppedTerm) | None => {}
        }
        SEEN.with_borrow_mut(|seen| {
            if !seen.is_by_call {
                let elements = result.shape().num_elements();
                seen.calls.push((seen.at, key, elements));
            }
        });
    }
}

/// Rounds to fewer bits than the dtype has.
fn rounded(x: f64, dtype: DType) -> f64 {
    let bits = match dtype {
        DType::BF16 => 4,
        _ => 6,
    };
    // The bits below it are added to it, and cut off.
    let half = 1 << (52 - bits);
    f64::from_bits((x.to_bits() + half) & !(2 * half - 1))
}

/// Whether an op adds terms up.
pub fn is_sum(op: Op) -> bool {
    let name = op.name();
    !name.contains("bias")
        && ["matmul", "conv", "sum", "mean"]
            .iter()
            .any(|part| name.contains(part))
}

/// Changes values, and notes it if one is another.
fn change<B: Backend>(tensor: &mut FloatTensor<B>, change: impl FnOnce(&mut [f64])) {
    let (dtype, device) = (tensor.dtype(), B::float_device(tensor));
    let data = read_sync(B::float_into_data(tensor.clone())).expect("the device delivers values");
    let before: Vec<f64> = data.iter::<f64>().collect();
    let mut values = before.clone();
    change(&mut values);
    if values != before {
        SEEN.with_borrow_mut(|seen| {
            let at = seen.at;
            seen.hits[usize::from(seen.is_by_call)].push(at);
        });
    }
    let data = TensorData::new(values, data.shape.clone()).convert_dtype(dtype);
    *tensor = B::float_from_data(data, &device);
}
