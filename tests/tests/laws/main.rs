//! What must hold for every op that has a cast class, whatever the op.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
};

use burn_amp::{AmpTensor, Class, Dtype, Observer, Op};
use burn_amp_tests::{
    cases::{Case, Output, Setting},
    *,
};
use burn_backend::{Backend, DType, FloatDType, TensorData, TensorMetadata, tensor::FloatTensor};

/// The backend of the results in F64.
type Reference = burn::backend::Flex;

// ---------------------------------------------------------------------------------------------------------------------
// Which ops are driven

/// Ops that the backend under test cannot run, and why.
const NOT_DRIVEN: &[(Op, &str)] = &[
    #[cfg(not(feature = "vulkan"))]
    (Op::float_argtopk, "unimplemented in burn-flex 0.21.0"),
    #[cfg(not(feature = "vulkan"))]
    (
        Op::ctc_loss_backward,
        "burn-flex has none: `has_ctc_loss_backward` is false",
    ),
];

fn is_driven(op: Op) -> bool {
    NOT_DRIVEN.iter().all(|(not, _)| *not != op)
}

#[test]
fn every_op_with_a_class_has_a_case() {
    for op in Op::ALL {
        let has_class = Dtype::ALL
            .iter()
            .any(|compute| op.class(*compute).is_some());
        assert_eq!(Case::<Plain>::of(*op).is_some(), has_class, "{op}");
    }
}

#[test]
fn an_op_is_left_out_only_if_the_plain_backend_cannot_run_it() {
    for (op, why) in NOT_DRIVEN {
        let run = || read(run_plain(*op, DType::F32, None));
        assert!(catch_unwind(run).is_err(), "{op} runs, but: {why}");
    }
}

/// Calls `check` for every op with its class in `P`, and tells all that fail.
fn law<P: PolicySource>(check: impl Fn(Op, Class)) {
    let compute = compute::<P>();
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

fn compute<P: PolicySource>() -> Dtype {
    match P::config().expect("the tests' policies are valid").compute {
        Compute::F16 => Dtype::F16,
        Compute::Bf16 => Dtype::BF16,
        Compute::Auto | Compute::F32 => unreachable!("the laws are about low policies"),
    }
}

fn burn_dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::Flex32 => DType::Flex32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Running a case

/// A result read back.
#[derive(Clone, Debug, PartialEq)]
struct Read {
    /// The dtype of the values where they were computed; `None` for results that are not float.
    stored: Option<DType>,
    /// The dtype that the model sees.
    logical: Option<DType>,
    /// In F64, which holds every other dtype.
    values: Vec<f64>,
}

impl Read {
    /// The values as they would be compared bit by bit: -0 is not 0, and NaN is NaN.
    fn bits(&self) -> Vec<u64> {
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
trait Stores: Backend {
    fn stored(tensor: &FloatTensor<Self>) -> DType;
}

impl Stores for Reference {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.dtype()
    }
}

#[cfg(feature = "vulkan")]
impl Stores for Plain {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.dtype()
    }
}

impl<B: Backend, P: PolicySource> Stores for burn_amp::Amp<B, P> {
    fn stored(tensor: &FloatTensor<Self>) -> DType {
        tensor.storage_dtype()
    }
}

fn read<B: Stores>(outputs: Vec<Output<B>>) -> Vec<Read> {
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
    let tensor = |operand: &cases::Operand| B::float_from_data(operand.data(), device);
    case.operands.iter().map(tensor).collect()
}

fn case<B: Backend>(op: Op) -> Case<B> {
    Case::of(op).expect("every op with a class has a case")
}

fn cast<B: Backend>(tensor: FloatTensor<B>, to: DType) -> FloatTensor<B> {
    match tensor.dtype() == to {
        true => tensor,
        false => B::float_cast(tensor, to.into()),
    }
}

/// The op on the plain backend, all operands in `dtype`.
fn run_plain(op: Op, dtype: DType, scalar: Option<f64>) -> Vec<Output<Plain>> {
    run_on::<Plain>(op, dtype, scalar)
}

fn run_on<B: Backend>(op: Op, dtype: DType, scalar: Option<f64>) -> Vec<Output<B>> {
    let case = case::<B>(op);
    let setting = Setting {
        scalar,
        ..Setting::default()
    };
    let operands = operands(&case, &setting.device).into_iter();
    case.run(operands.map(|x| cast::<B>(x, dtype)).collect(), &setting)
}

/// The op under Amp on F32 operands; those that `low` names by position are stored in the compute dtype.
fn run_amp<P: PolicySource>(
    op: Op,
    low: impl Fn(usize) -> bool,
    scalar: Option<f64>,
) -> (Vec<Output<Amp<P>>>, Vec<Cast>) {
    let case = case::<Amp<P>>(op);
    let setting = Setting {
        scalar,
        ..Setting::default()
    };
    let operands = operands(&case, &setting.device).into_iter().enumerate();
    let operands = operands
        .map(|(i, x)| if low(i) { stored_low::<P>(x) } else { x })
        .collect();
    casts(|| case.run(operands, &setting))
}

fn stored_low<P: PolicySource>(tensor: AmpTensor<Plain>) -> AmpTensor<Plain> {
    Amp::<P>::custom_op(Class::Low, [tensor], |[x]| x)
}

/// A cast of an operand of an op, from and to.
type Cast = (Op, Dtype, Dtype);

thread_local! {
    static CASTS: RefCell<Vec<Cast>> = const { RefCell::new(Vec::new()) };
}

/// What `f` returns, and the casts of operands that burn-amp made on this thread meanwhile.
fn casts<T>(f: impl FnOnce() -> T) -> (T, Vec<Cast>) {
    struct OfThisThread;

    impl Observer for OfThisThread {
        fn cast(&self, op: Option<Op>, from: Dtype, to: Dtype) {
            if let Some(op) = op {
                CASTS.with_borrow_mut(|casts| casts.push((op, from, to)));
            }
        }
    }

    static ONCE: Once = Once::new();
    ONCE.call_once(|| burn_amp::observe(Some(Arc::new(OfThisThread))));

    CASTS.take();
    let result = f();
    (result, CASTS.take())
}

// ---------------------------------------------------------------------------------------------------------------------
// Parity

/// What a class means, said once more: the dtype of the operands in the op, and that of its results.
fn by_hand(class: Class, compute: Dtype, stored: &[Dtype]) -> (Dtype, Dtype) {
    let all_low = stored.iter().all(|dtype| *dtype == compute);
    let join = if all_low { compute } else { Dtype::F32 };
    match class {
        Class::Low => (compute, compute),
        Class::Full => (Dtype::F32, Dtype::F32),
        Class::Internal => (Dtype::F32, join),
        Class::Widest | Class::Keep => (join, join),
    }
}

/// Gradients of weights leave in F32, because they are accumulated.
fn leaves_wide(op: Op) -> bool {
    op.name().ends_with("_weight_backward")
}

/// Which operands are stored low: none, all, only the first, all but the first.
fn storages(op: Op) -> Vec<fn(usize) -> bool> {
    let several = case::<Plain>(op).operands.len() > 1;
    let uniform: [fn(usize) -> bool; 2] = [|_| false, |_| true];
    let mixed: [fn(usize) -> bool; 2] = [|i| i == 0, |i| i != 0];
    uniform
        .into_iter()
        .chain(mixed.into_iter().filter(|_| several))
        .collect()
}

fn equals_by_hand<P: PolicySource>() {
    let compute = compute::<P>();
    law::<P>(|op, class| {
        for low in storages(op) {
            let stored: Vec<Dtype> = (0..case::<Plain>(op).operands.len())
                .map(|i| if low(i) { compute } else { Dtype::F32 })
                .collect();
            let (inside, result) = by_hand(class, compute, &stored);
            let result = if leaves_wide(op) { Dtype::F32 } else { result };

            let (outputs, casts) = run_amp::<P>(op, low, None);
            let expected_casts: Vec<Cast> = stored
                .iter()
                .filter(|from| **from != inside)
                .map(|from| (op, *from, inside))
                .collect();
            let casts: Vec<Cast> = casts.into_iter().filter(|cast| cast.0 == op).collect();
            assert_eq!(
                casts, expected_casts,
                "casts, operands stored in {stored:?}"
            );

            let expected: Vec<Output<Plain>> = run_plain(op, burn_dtype(inside), None)
                .into_iter()
                .map(|output| match output {
                    Output::Float(x) => Output::Float(cast::<Plain>(x, burn_dtype(result))),
                    other => other,
                })
                .collect();
            let (outputs, expected) = (read(outputs), read(expected));
            assert_eq!(outputs.len(), expected.len());
            for (output, expected) in outputs.iter().zip(&expected) {
                assert_eq!(
                    output.stored, expected.stored,
                    "operands stored in {stored:?}"
                );
                assert_eq!(output.logical, output.stored.map(|_| DType::F32));
                assert!(
                    output.bits() == expected.bits(),
                    "operands stored in {stored:?}\n   amp {:?}\nplain {:?}",
                    output.values,
                    expected.values
                );
            }
        }
    });
}

#[test]
fn each_op_equals_the_plain_op_with_casts_by_hand() {
    for_each_low_policy!(equals_by_hand);
}

// ---------------------------------------------------------------------------------------------------------------------
// Classes

fn stores_as_its_class_says<P: PolicySource>() {
    let compute = burn_dtype(compute::<P>());
    law::<P>(|op, class| {
        for low in storages(op) {
            for output in read(run_amp::<P>(op, low, None).0) {
                let Some(stored) = output.stored else {
                    continue;
                };
                match class {
                    Class::Low if leaves_wide(op) => assert_eq!(stored, DType::F32),
                    Class::Low => assert_eq!(stored, compute),
                    Class::Full => assert_eq!(stored, DType::F32),
                    Class::Internal | Class::Widest | Class::Keep => {
                        assert!([compute, DType::F32].contains(&stored))
                    }
                }
            }
        }
    });
}

#[test]
fn a_low_op_stores_the_compute_dtype_and_a_full_op_f32() {
    for_each_low_policy!(stores_as_its_class_says);
}

fn inserts_no_cast<P: PolicySource>() {
    let compute = burn_dtype(compute::<P>());
    law::<P>(|op, class| {
        if !matches!(class, Class::Widest | Class::Keep) {
            return;
        }
        for (low, dtype) in [(false, DType::F32), (true, compute)] {
            let (outputs, casts) = run_amp::<P>(op, |_| low, None);
            assert_eq!(casts, [], "operands in {dtype:?}");
            for output in read(outputs) {
                assert!(output.stored.is_none_or(|stored| stored == dtype));
            }
        }
    });
}

#[test]
fn keep_and_widest_insert_no_cast_among_operands_of_one_dtype() {
    for_each_low_policy!(inserts_no_cast);
}

fn leaves_f64<P: PolicySource>() {
    law::<P>(|op, _| {
        let plain = read(run_on::<Reference>(op, DType::F64, None));
        let run = || run_on::<burn_amp::Amp<Reference, P>>(op, DType::F64, None);
        let (outputs, casts) = casts(run);
        assert_eq!(casts, []);
        for (output, plain) in read(outputs).iter().zip(&plain) {
            assert_eq!(
                (output.stored, output.logical),
                (plain.stored, plain.stored)
            );
            assert!(plain.stored.is_none_or(|stored| stored == DType::F64));
            assert_eq!(output.bits(), plain.bits());
        }
    });
}

/// The reference backend is Flex, so this says nothing of Vulkan, which has no F64.
#[cfg(not(feature = "vulkan"))]
#[test]
fn f64_is_never_touched() {
    for_each_low_policy!(leaves_f64);
}
