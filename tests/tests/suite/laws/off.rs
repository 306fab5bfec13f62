//! Law: under `o0` every op of tensors in any float dtype has the values and gradients of the plain backend, bit for bit.

use burn_amp_tests::{
    cases::{Case, Output, Setting},
    prelude::*,
};

use super::drive::*;

policy!(
    /// The plain backend.
    Off,
    changed(Config::default(), |it| it.preset = Preset::O0)
);

/// The dtype and the bits of a tensor.
type Bits = (DType, Vec<u64>);

fn bits<E: std::fmt::Debug>(data: impl Future<Output = Result<TensorData, E>>) -> Bits {
    let data = read_sync(data).expect("the backend computes");
    let dtype = data.dtype;
    let bits = |x: f64| {
        if x.is_nan() {
            f64::NAN.to_bits()
        } else {
            x.to_bits()
        }
    };
    (
        dtype,
        data.convert::<f64>().iter::<f64>().map(bits).collect(),
    )
}

/// The float results of the op with operands that were cast to `dtype`, and the gradients of all operands by each result.
fn of<B: AutodiffBackend>(op: Op, dtype: DType) -> Vec<Option<Bits>> {
    let case = Case::<B>::of(op).expect("the op has a case");
    let device = Device::<B>::default();
    let leaf = |data| B::float_set_require_grad(B::float_from_data(data, &device), true);
    let leaves: Vec<_> = case
        .operands
        .iter()
        .map(|operand| leaf(operand.data()))
        .collect();
    let operands = leaves.iter().cloned().map(|x| cast::<B>(x, dtype));
    let results = case.run(operands.collect(), &Setting::default());
    let floats = results.into_iter().filter_map(|result| match result {
        Output::Float(tensor) => Some(tensor),
        Output::Int(_) | Output::Bool(_) | Output::Quantized(_) => None,
    });
    let of_result = |result: FloatTensor<B>| {
        let values = bits(B::float_into_data(result.clone()));
        let grads = B::backward(result);
        let gradients = leaves.iter().map(move |leaf| {
            B::grad(leaf, &grads).map(|gradient| {
                bits(
                    <B::InnerBackend as burn_backend::ops::FloatTensorOps<_>>::float_into_data(
                        gradient,
                    ),
                )
            })
        });
        std::iter::once(Some(values))
            .chain(gradients)
            .collect::<Vec<_>>()
    };
    floats.flat_map(of_result).collect()
}

#[test]
fn every_op_of_every_dtype_is_that_of_the_plain_backend_with_its_gradients() {
    let _policy = enter::<Off>();
    let (mut compared, mut different) = (0, Vec::new());
    for op in Op::ALL.iter().copied().filter(|op| is_driven(*op)) {
        if Case::<Plain>::of(op).is_none() {
            continue;
        }
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            // Burn's `Autodiff` has no gradient of some ops, and Flex has no quantized half precision.
            let plain = || of::<PlainAutodiff>(op, dtype);
            let Ok(expected) = catch_unwind(AssertUnwindSafe(plain)) else {
                continue;
            };
            compared += expected.iter().flatten().count();
            if of::<AmpAutodiff>(op, dtype) != expected {
                different.push(format!("{op} in {dtype:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join(", "));
    assert!(compared > 1000, "{compared}");
}
