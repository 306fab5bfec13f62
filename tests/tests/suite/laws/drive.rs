//! Runs the cases of all ops: on the plain backend, under Amp, and in F64.

use std::{cell::RefCell, sync::Arc};

use burn_amp::{extend::AmpTensor, observe::Observer};
use burn_amp_tests::{
    cases::{Case, Operand, Output, Setting},
    prelude::*,
};

/// The backend that computes the exact results, in F64.
pub type Reference = burn::backend::Flex;

/// Ops that the backend under test cannot run, with the reasons.
pub const NOT_DRIVEN: &[(Op, &str)] = &[
    #[cfg(not(feature = "cubecl"))]
    (Op::float_argtopk, "unimplemented in burn-flex 0.21.0"),
    #[cfg(not(feature = "cubecl"))]
    (
        Op::ctc_loss_backward,
        "burn-flex has none: `has_ctc_loss_backward` is false",
    ),
];

pub fn is_driven(op: Op) -> bool {
    NOT_DRIVEN.iter().all(|(not, _)| *not != op)
}

/// Calls `check` for every op that has a class under the policy in force; panics with a list of all failures.
pub fn law(check: impl Fn(Op, Class)) {
    let compute = precision();
    let failures: Vec<String> = Op::ALL
        .iter()
        .filter(|op| is_driven(**op))
        .filter_map(|op| Some((*op, op.class(compute)?)))
        .filter_map(|(op, class)| {
            let panic = catch_unwind(AssertUnwindSafe(|| check(op, class))).err()?;
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("panicked");
            Some(format!("{op} ({class}, {compute}): {message}"))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

pub fn burn_dtype(dtype: Precision) -> DType {
    match dtype {
        Precision::F64 => DType::F64,
        Precision::F32 => DType::F32,
        Precision::Flex32 => DType::Flex32,
        Precision::F16 => DType::F16,
        Precision::BF16 => DType::BF16,
    }
}

/// A result, read back to the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The dtype of the values where they were computed; `None` for results that are not float.
    pub stored: Option<DType>,
    /// The dtype that the model sees.
    pub logical: Option<DType>,
    /// The values in F64, which holds those of every other dtype exactly.
    pub values: Vec<f64>,
}

impl Read {
    /// The values for a comparison bit by bit, in which -0 differs from 0, and NaN equals NaN.
    pub fn bits(&self) -> Vec<u64> {
        let bits = |x: &f64| {
            if x.is_nan() {
                f64::NAN.to_bits()
            } else {
                x.to_bits()
            }
        };
        self.values.iter().map(bits).collect()
    }
}

/// A backend whose float tensors have a storage dtype.
pub trait Stores: Backend {
    fn stored(tensor: &FloatTensor<Self>) -> DType;
}

impl Stores for Reference {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.dtype()
    }
}

#[cfg(feature = "cubecl")]
impl Stores for Plain {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.dtype()
    }
}

impl<B: burn_amp::AmpBackend, P: ConfigSource> Stores for burn_amp::Amp<B, P> {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.storage_dtype()
    }
}

pub fn read<B: Stores>(outputs: Vec<Output<B>>) -> Vec<Read> {
    fn values(data: TensorData) -> Vec<f64> {
        data.convert::<f64>().into_vec().expect("converted to f64")
    }
    fn data<E: std::fmt::Debug>(read: impl Future<Output = Result<TensorData, E>>) -> TensorData {
        burn_backend::read_sync(read).expect("the backend computes")
    }
    outputs
        .into_iter()
        .map(|output| match output {
            Output::Float(tensor) => Read {
                stored: Some(B::stored(&tensor)),
                logical: Some(tensor.dtype()),
                values: values(data(B::float_into_data(tensor))),
            },
            Output::Int(tensor) => Read {
                stored: None,
                logical: None,
                values: values(data(B::int_into_data(tensor))),
            },
            Output::Bool(tensor) => Read {
                stored: None,
                logical: None,
                values: values(data(B::bool_into_data(tensor))),
            },
            Output::Quantized(tensor) => Read {
                stored: None,
                logical: None,
                values: values(data(B::float_into_data(B::dequantize(
                    tensor,
                    FloatDType::F32,
                )))),
            },
        })
        .collect()
}

fn operands<B: Backend>(case: &Case<B>, device: &B::Device) -> Vec<FloatTensor<B>> {
    let tensor = |operand: &Operand| B::float_from_data(operand.data(), device);
    case.operands.iter().map(tensor).collect()
}

pub fn case<B: Backend>(op: Op) -> Case<B> {
    Case::of(op).expect("every op with a class has a case")
}

pub fn cast<B: Backend>(tensor: FloatTensor<B>, to: DType) -> FloatTensor<B> {
    match tensor.dtype() == to {
        true => tensor,
        false => B::float_cast(tensor, to.into()),
    }
}

/// Runs the op on the plain backend with all operands in `dtype`.
pub fn run_plain(op: Op, dtype: DType, scalar: Option<f64>) -> Vec<Output<Plain>> {
    run_on::<Plain>(op, dtype, scalar)
}

pub fn run_on<B: Backend>(op: Op, dtype: DType, scalar: Option<f64>) -> Vec<Output<B>> {
    let case = case::<B>(op);
    let setting = Setting {
        scalar,
        ..Setting::default()
    };
    let operands = operands(&case, &setting.device).into_iter();
    case.run(operands.map(|x| cast::<B>(x, dtype)).collect(), &setting)
}

/// Runs the op under Amp; operands for whose position `low` is true are stored in the compute dtype, others in F32.
pub fn run_amp(
    op: Op,
    low: impl Fn(usize) -> bool,
    scalar: Option<f64>,
) -> (Vec<Output<Amp>>, Vec<Cast>) {
    let case = case::<Amp>(op);
    let setting = Setting {
        scalar,
        ..Setting::default()
    };
    let operands = operands(&case, &setting.device).into_iter().enumerate();
    let operands = operands
        .map(|(i, x)| if low(i) { stored_low(x) } else { x })
        .collect();
    casts(|| case.run(operands, &setting))
}

fn stored_low(tensor: AmpTensor<Plain>) -> AmpTensor<Plain> {
    Amp::custom_op(Class::Low, [tensor], |[x]| x)
}

/// A cast of an operand: the op, the dtype before and the dtype after.
pub type Cast = (Op, Precision, Precision);

thread_local! {
    static CASTS: RefCell<Vec<Cast>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`; returns its result and the casts of operands that burn-amp made on this thread meanwhile.
pub fn casts<T>(f: impl FnOnce() -> T) -> (T, Vec<Cast>) {
    struct OfThisThread;

    impl Observer for OfThisThread {
        fn cast(&self, op: Option<Op>, from: Precision, to: Precision) {
            if let Some(op) = op {
                CASTS.with_borrow_mut(|casts| casts.push((op, from, to)));
            }
        }
    }

    // Set at every call, because another test may have replaced the observer.
    burn_amp::observe::set_observer(Some(Arc::new(OfThisThread)));
    CASTS.take();
    let result = f();
    (result, CASTS.take())
}
